// Package connect stands in for the original, as far as the cases use it.
package connect

import "net/http"

type Request[T any] struct{ Msg *T }

func NewRequest[T any](message *T) *Request[T] { return &Request[T]{message} }

func (r *Request[T]) Header() http.Header { return nil }

type Response[T any] struct{ Msg *T }
