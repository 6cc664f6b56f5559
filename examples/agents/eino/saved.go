package agent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Messages is the table in which a program saves the messages of its model.
const Messages = `CREATE TABLE messages (
	account text, session text, turn int, message json NOT NULL,
	PRIMARY KEY (account, session, turn))`

// RunSaved is [RunRecorded] for a program that saves the model's messages itself. It replaces the id
// of each call by a new key before it saves the message. A saved call therefore keeps its key.
func RunSaved(ctx context.Context, pool *pgxpool.Pool, m model.ToolCallingChatModel, tools *tool.Registry, account, session, question string) (string, error) {
	call := func(ctx context.Context, name, id string, args json.RawMessage) (tool.Answer, error) {
		return tools.Invoke(ctx, tool.Invocation{Scope: account, Session: session, Key: id, Tool: name, Args: args})
	}
	return answer(ctx, saved{m, pool, account, session, new(int)}, tools, call, question)
}

// saved is a model whose messages are saved.
type saved struct {
	model.ToolCallingChatModel
	pool             *pgxpool.Pool
	account, session string
	turn             *int // of the last message
}

func (m saved) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	bound, err := m.ToolCallingChatModel.WithTools(tools)
	m.ToolCallingChatModel = bound
	return m, err
}

func (m saved) Generate(ctx context.Context, history []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	message, err := m.next(ctx, *m.turn+1, history, opts)
	if err == nil {
		*m.turn++
	}
	return message, err
}

// next returns the saved message of a turn, or asks the model for it.
func (m saved) next(ctx context.Context, turn int, history []*schema.Message, opts []model.Option) (message *schema.Message, err error) {
	err = m.pool.QueryRow(ctx, `SELECT message FROM messages WHERE account = $1 AND session = $2 AND turn = $3`,
		m.account, m.session, turn).Scan(&message)
	if !errors.Is(err, pgx.ErrNoRows) {
		return message, err
	}
	answer, err := m.ToolCallingChatModel.Generate(ctx, history, opts...)
	if err != nil {
		return nil, err
	}
	for i := range answer.ToolCalls {
		answer.ToolCalls[i].ID = dedup.NewKey()
	}
	// If another process saved a message for this turn first, return that one.
	err = m.pool.QueryRow(ctx, `
		INSERT INTO messages VALUES ($1, $2, $3, $4)
		ON CONFLICT (account, session, turn) DO UPDATE SET message = messages.message
		RETURNING message`, m.account, m.session, turn, answer).Scan(&message)
	return message, err
}

func (m saved) Stream(ctx context.Context, history []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	message, err := m.Generate(ctx, history, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{message}), nil
}
