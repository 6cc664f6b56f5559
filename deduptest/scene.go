package deduptest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// scene is one scenario while it runs.
type scene struct {
	v      *verification
	ctx    context.Context
	out    *ScenarioReport
	stages []*stage
}

// open opens a stage, which is closed with the scene. If that fails it fails the scenario and
// returns nil.
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
