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
	// Next is the cursor of the next page, empty on the last one.
	Next string
}

// Entry is embedded in the entries of every list.
type Entry struct {
	// Cursor is the place after the entry.
	Cursor string    `db:"-" json:"cursor,omitempty"`
	Now    time.Time `json:"-"` // when it was read
}

func (e *Entry) mark(cursor string) { e.Cursor = cursor }

// place is the position of an entry in a list. Each list sets the fields of its order.
type place struct {
	List             string
	At, Created      time.Time `json:",omitzero"`
	Scope, Tool, Key string    `json:",omitempty"`
	ID               string    `json:",omitempty"`
}

// ErrCursor is returned for a text that is not a cursor of the list.
var ErrCursor = errors.New("it is not a cursor of this list")

// cursor returns the place as text.
func (p place) cursor(list string) string {
	p.List = list
	text, _ := json.Marshal(p) // cannot fail: texts, numbers and times
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeOf reads a cursor. The empty cursor is the zero place, before the first entry.
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

// pageOf reads the page of a list after a cursor. find returns the first limit entries after a
// place. If its search ends before the list does, it also returns the place where the next search
// begins.
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
		page.Entries, rest, err = find(r, at, limit+1) // one more shows that there is a next page
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
