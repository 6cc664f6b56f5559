// Package errgroup stands in for the original, as far as the cases use it.
package errgroup

type Group struct{}

func (g *Group) Go(f func() error)         {}
func (g *Group) TryGo(f func() error) bool { return true }
func (g *Group) Wait() error               { return nil }
