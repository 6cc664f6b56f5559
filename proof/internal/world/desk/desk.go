// Package desk has the tools that both domains offer and that touch no
// database: thinking, arithmetic, and handing over to a person.
package desk

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Tools are the desk's tools. They change nothing.
func Tools() []kit.Tool {
	return []kit.Tool{
		kit.Define("calculate", tool.ReadOnly, Calculate),
		kit.Define("think", tool.ReadOnly, Think),
		kit.Define("transfer_to_human_agents", tool.ReadOnly, Transfer),
	}
}

// ThinkIn are the arguments of think.
type ThinkIn struct {
	Thought string `json:"thought"`
}

// Think answers with an empty text.
func Think(context.Context, pgx.Tx, ThinkIn) (*string, error) {
	return new(""), nil
}

// TransferIn are the arguments of transfer_to_human_agents.
type TransferIn struct {
	Summary string `json:"summary"`
}

// Transfer hands the conversation over.
func Transfer(context.Context, pgx.Tx, TransferIn) (*string, error) {
	return new("Transfer successful"), nil
}
