// Package desk has the tools that both domains offer and that touch no
// database: thinking, arithmetic, and handing over to a person.
package desk

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// Tools are the desk's tools under the name of a domain.
func Tools(domain string) []tool.Tool {
	return []tool.Tool{
		tool.Text(tool.Name{Domain: domain, Tool: "calculate"}, recording.Noop, Calculate),
		tool.Text(tool.Name{Domain: domain, Tool: "think"}, recording.Noop, Think),
		tool.Text(tool.Name{Domain: domain, Tool: "transfer_to_human_agents"}, recording.Noop, Transfer),
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
