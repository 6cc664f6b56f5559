package contract_test

import (
	"context"

	"github.com/tooldedup/dedup"
)

// onRetried is called before each pause.
type onRetried func()

func (do onRetried) TraceRetried(context.Context, dedup.RetriedData) { do() }
