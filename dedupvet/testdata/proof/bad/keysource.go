package bad

import (
	"time"

	"github.com/tooldedup/dedup"
)

func source(invoice string) (string, error) {
	return dedup.KeyFromIntent("send", invoice, time.Now().Format(time.RFC3339))
}
