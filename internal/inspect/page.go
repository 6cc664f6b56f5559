package inspect

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

// Page is a part of a list. Lists are read by an index, a page at a time, and never counted.
type Page[T any] struct {
	Entries []T
	// Next is the cursor to go on from, empty where there is no more.
	Next string
}

// Entry is what the entries of all lists have.
type Entry struct {
	// Cursor names the place behind the entry.
	Cursor string    `db:"-" json:"cursor,omitempty"`
	Now    time.Time `json:"-"` // when it was read
}

func (e *Entry) mark(cursor string) { e.Cursor = cursor }

// place is where an entry stands in a list. Each list sets what it is ordered by.
type place struct {
	List             string
	At, Created      time.Time `json:",omitzero"`
	Scope, Tool, Key string    `json:",omitempty"`
	ID               string    `json:",omitempty"`
}

// ErrCursor says that a text is no cursor of the list that was asked for.
var ErrCursor = errors.New("it is no cursor of this list")

// cursor is the text of a place.
func (p place) cursor(list string) string {
	p.List = list
	text, _ := json.Marshal(p) // texts, numbers and times
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeOf reads a cursor. An empty one is the place before the first entry, which is zero.
func placeOf(list, cursor string) (at place, err error) {
	if cursor == "" {
		return at, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&at)
	}
	if err != nil || at.List != list {
		return at, ErrCursor
	}
	return at, nil
}

// pageOf reads the page of a list behind a cursor. find returns the first limit entries behind a place and, where its
// search has ended before the list did, the place where the next one begins.
func pageOf[T any, E interface {
	*T
	mark(cursor string)
	place() place
}](ctx context.Context, db *Database, list, after string, limit int, find func(r *reader, at place, limit int) (found []T, rest place, err error),
) (page Page[T], err error) {
	at, err := placeOf(list, after)
	if err != nil {
		return page, err
	}
	var rest place
	err = db.read(ctx, func(r *reader) error {
		page.Entries, rest, err = find(r, at, limit+1) // one more says that there is more
		return err
	})
	if rest != (place{}) {
		page.Next = rest.cursor(list)
	}
	if len(page.Entries) > limit {
		page.Entries = page.Entries[:limit]
		page.Next = E(&page.Entries[limit-1]).place().cursor(list)
	}
	for i := range page.Entries {
		entry := E(&page.Entries[i])
		entry.mark(entry.place().cursor(list))
	}
	return page, err
}
