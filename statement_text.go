package dedup

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// statementText is what is made of a Statement's SQL, once for each text.
type statementText struct {
	// params is how many parameters it has.
	params int
	// effect runs the statement. alone and among run it and write its record; see
	// table.Combined.
	effect, alone, among wire.Query
}

// statementTexts remember what was made of the texts that were used.
type statementTexts struct {
	table *table.Table

	mu sync.RWMutex
	m  map[string]*statementText
}

// maxStatementTexts bounds the memory of programs that put values into their
// texts. It is the size of pgx's own cache of statements.
const maxStatementTexts = 512

// of makes a statement ready to be sent, or returns an ErrInvalid.
func (t *statementTexts) of(ctx context.Context, stmt Statement) (*boundStatement, error) {
	sql, args := stmt.SQL, stmt.Args
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			var err error
			if sql, args, err = rewriter.RewriteQuery(ctx, nil, sql, args[1:]); err != nil {
				return nil, &InvalidError{What: "call", Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	text, err := t.text(sql)
	if err != nil {
		return nil, err
	}
	if len(args) != text.params {
		return nil, invalid("Statement", "has %d parameters and %d arguments", text.params, len(args))
	}
	return &boundStatement{statementText: text, args: args, onError: stmt.OnError}, nil
}

func (t *statementTexts) text(sql string) (*statementText, error) {
	t.mu.RLock()
	text := t.m[sql]
	t.mu.RUnlock()
	if text != nil {
		return text, nil
	}
	text, err := t.newText(sql)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxStatementTexts {
		t.m = make(map[string]*statementText)
	}
	t.m[sql] = text
	return text, nil
}

func (t *statementTexts) newText(sql string) (*statementText, error) {
	with, params, err := sqllex.AsWith(sql, table.EffectName)
	if err != nil {
		return nil, invalid("Statement", "%s", err)
	}
	if params+table.CombinedParams > sqllex.MaxParams {
		return nil, invalid("Statement", "has %d parameters; at most %d are possible", params, sqllex.MaxParams-table.CombinedParams)
	}
	text := &statementText{params: params, effect: t.table.Effect(with)}
	text.alone, text.among = t.table.Combined(with, params)
	return text, nil
}
