// Package ent is written like ent's output.
package ent

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
)

type config struct{ driver dialect.Driver }

type Option func(*config)

func Driver(driver dialect.Driver) Option { return func(c *config) { c.driver = driver } }

func NewClient(opts ...Option) *Client { return nil }

type Client struct {
	config
	Note *NoteClient
}

func (c *Client) Tx(ctx context.Context) (*Tx, error) { return nil, nil }

type Tx struct {
	config
	Note *NoteClient
}

func (tx *Tx) Commit() error { return nil }
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return nil, nil
}

type NoteClient struct{ config }

func (c *NoteClient) Create() *NoteCreate              { return nil }
func (c *NoteClient) UpdateOne(note *Note) *NoteCreate { return nil }

type NoteCreate struct{ config }

func (c *NoteCreate) SetText(text string) *NoteCreate         { return c }
func (c *NoteCreate) Save(ctx context.Context) (*Note, error) { return nil, nil }

type Note struct{ config }
