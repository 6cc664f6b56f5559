// Package sqllex reads SQL as far as its lexical rules go: where a token, a statement
// or a WITH clause ends. It knows no grammar beyond that, no table and no connection,
// and the server stays the judge of what a text means.
package sqllex
