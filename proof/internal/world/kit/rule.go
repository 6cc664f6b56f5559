package kit

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/tool"
)

// Subject is implemented by arguments that name one document.
type Subject interface{ Subject() string }

// Rule checks a change of a document and makes it. All checks come first, so that a refusal has
// changed nothing. Documents that it needs besides it locks afterwards, and saves itself.
type Rule[In, Doc any] func(ctx context.Context, tx pgx.Tx, doc *Doc, in In) error

// Change makes a tool that changes one document by a rule and answers with the document. Each
// run to the end stands in the audit log, also one that overwrites.
func Change[In Subject, Doc any](name string, class tool.Class, table Table[Doc], rule Rule[In, Doc]) Tool {
	return Define(name, class, func(ctx context.Context, tx pgx.Tx, in In) (*Doc, error) {
		doc, err := table.Lock(ctx, tx, in.Subject())
		if err != nil {
			return nil, err
		}
		if err := rule(ctx, tx, doc, in); err != nil {
			return nil, err
		}
		if err := table.Save(ctx, tx, in.Subject(), doc); err != nil {
			return nil, err
		}
		return doc, Record(ctx, tx, table.Domain, name, in.Subject())
	})
}

// Show makes a tool that answers with a document as it is stored.
func Show[In Subject, Doc any](name string, table Table[Doc]) Tool {
	stored := Table[json.RawMessage](table)
	return Define(name, tool.ReadOnly, func(ctx context.Context, tx pgx.Tx, in In) (json.RawMessage, error) {
		text, err := stored.Read(ctx, tx, in.Subject())
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, Refuse("%s", table.Missing)
		}
		if err != nil {
			return nil, err
		}
		return *text, nil
	})
}
