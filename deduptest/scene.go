package deduptest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
)

// scene is one scenario while it is run.
type scene struct {
	v      *verification
	ctx    context.Context
	rng    *rand.Rand
	out    Outcome
	stages []*stage
}

// open opens a stage that is closed with the scene. It returns nil, and fails the
// scenario, when that does not work.
func (sc *scene) open(tracer pgx.QueryTracer) *stage { return sc.openFor(sc.v.tool, tracer) }

// openOnce opens a stage whose Deduper gives up at the first fault.
func (sc *scene) openOnce() *stage {
	s := sc.openFor(sc.v.tool.once(), nil)
	if s != nil {
		s.once = true
	}
	return s
}

func (sc *scene) openFor(tool Tool, tracer pgx.QueryTracer) *stage {
	s, err := sc.v.openStage(sc.ctx, tool, tracer)
	if err != nil {
		sc.failf("%v", err)
		return nil
	}
	sc.out.Calls++
	sc.stages = append(sc.stages, s)
	return s
}

// shut closes a stage before the scene ends.
func (sc *scene) shut(s *stage) {
	if err := s.close(sc.v.patience); err != nil {
		sc.failf("%v", err)
	}
}

func (sc *scene) close() {
	for _, s := range sc.stages {
		sc.shut(s)
	}
}

func (sc *scene) failf(format string, args ...any) {
	sc.out.Failures = append(sc.out.Failures, fmt.Sprintf(format, args...))
}
