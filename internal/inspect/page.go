package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Page is a part of a list. Lists are read by an index, a page at a time, and never counted.
type Page[T any] struct {
	Entries []T
	// Next is the cursor to go on from, empty where there is no more.
	Next string
}

// ErrCursor says that a text is no cursor of the list that was asked for.
var ErrCursor = errors.New("it is no cursor of this list")

// cursor is the text of a place in a list.
func cursor(place any) string {
	text, _ := json.Marshal(place) // texts, numbers and times
	return base64.RawURLEncoding.EncodeToString(text)
}

// place reads a cursor. An empty one is the place before the first entry, which is zero.
func place[P any](cursor string) (at P, err error) {
	if cursor == "" {
		return at, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&at)
	}
	if err != nil {
		return at, ErrCursor
	}
	return at, nil
}

// cut makes a page of what was read, one entry more than limit where there is more. mark gives an
// entry its cursor.
func cut[T any](found []T, limit int, mark func(*T) string) (page Page[T]) {
	page.Entries = found[:min(len(found), limit)]
	for i := range page.Entries {
		page.Next = mark(&page.Entries[i])
	}
	if len(found) <= limit {
		page.Next = ""
	}
	return page
}
