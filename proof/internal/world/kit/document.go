package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Table is a table of documents: an id and one json column. It is stored as text, so that no
// number and no key is rewritten by the database. The names are constants of a domain.
type Table[Doc any] struct {
	Domain string
	Name   string // without the domain's
	ID     string // the column
	// Missing is the refusal where there is no document.
	Missing string
}

// Read decodes a document and locks nothing. It returns pgx.ErrNoRows where there is none.
func (t Table[Doc]) Read(ctx context.Context, tx pgx.Tx, id string) (*Doc, error) {
	return t.read(ctx, tx, id, "")
}

// Lock decodes a document that the transaction will change, and refuses where there is none.
func (t Table[Doc]) Lock(ctx context.Context, tx pgx.Tx, id string) (*Doc, error) {
	doc, err := t.read(ctx, tx, id, "FOR UPDATE")
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, Refuse("%s", t.Missing)
	}
	return doc, err
}

// LockOwner is Lock for the owner of a document that is locked already. Here a missing document
// is damage and no answer.
func (t Table[Doc]) LockOwner(ctx context.Context, tx pgx.Tx, id, of string) (*Doc, error) {
	doc, err := t.read(ctx, tx, id, "FOR UPDATE")
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("user %s of %s is missing", id, of)
	}
	return doc, err
}

func (t Table[Doc]) read(ctx context.Context, tx pgx.Tx, id, locking string) (*Doc, error) {
	var text []byte
	query := fmt.Sprintf("SELECT doc FROM %s_%s WHERE %s = $1 %s", t.Domain, t.Name, t.ID, locking)
	if err := tx.QueryRow(ctx, query, id).Scan(&text); err != nil {
		return nil, err
	}
	doc := new(Doc)
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("decoding document %s: %w", id, err)
	}
	return doc, nil
}

// Save overwrites a document that the transaction has locked.
func (t Table[Doc]) Save(ctx context.Context, tx pgx.Tx, id string, doc *Doc) error {
	written, err := t.put(ctx, tx, fmt.Sprintf("UPDATE %s_%s SET doc = $2 WHERE %s = $1", t.Domain, t.Name, t.ID), id, doc)
	if err == nil && !written {
		return fmt.Errorf("writing document %s: the row is gone", id)
	}
	return err
}

// Insert writes a new document, and reports false where its id is taken.
func (t Table[Doc]) Insert(ctx context.Context, tx pgx.Tx, id string, doc *Doc) (bool, error) {
	return t.put(ctx, tx, fmt.Sprintf("INSERT INTO %s_%s (%s, doc) VALUES ($1, $2) ON CONFLICT (%[3]s) DO NOTHING", t.Domain, t.Name, t.ID), id, doc)
}

func (t Table[Doc]) put(ctx context.Context, tx pgx.Tx, statement, id string, doc *Doc) (bool, error) {
	text, err := Marshal(doc)
	if err != nil {
		return false, fmt.Errorf("encoding document %s: %w", id, err)
	}
	tag, err := tx.Exec(ctx, statement, id, string(text))
	if err != nil {
		return false, fmt.Errorf("writing document %s: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}
