package deduptest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// scene is one scenario while it is run.
type scene struct {
	v      *verification
	ctx    context.Context
	out    *Outcome
	stages []*stage
}

// open opens a stage that is closed with the scene. It returns nil, and fails the
// scenario, when that does not work.
func (sc *scene) open(tool Tool, tracer pgx.QueryTracer) *stage {
	s, err := sc.v.openStage(sc.ctx, tool, tracer)
	if err != nil {
		sc.out.failf("%v", err)
		return nil
	}
	sc.out.Calls++
	sc.stages = append(sc.stages, s)
	return s
}

func (sc *scene) close() {
	for _, s := range sc.stages {
		if err := s.close(sc.v.patience); err != nil {
			sc.out.failf("%v", err)
		}
	}
}
