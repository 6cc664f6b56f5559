// Package uuid stands in for google/uuid, as far as the cases use it.
package uuid

type UUID [16]byte

func New() UUID                            { return UUID{} }
func NewString() string                    { return "" }
func NewRandom() (UUID, error)             { return UUID{}, nil }
func NewSHA1(space UUID, data []byte) UUID { return UUID{} }
func Must(id UUID, err error) UUID         { return id }
func (id UUID) String() string             { return "" }
