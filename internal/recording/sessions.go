package recording

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

const (
	callsFile        = "calls.jsonl"
	trajectoriesFile = "trajectories.jsonl"
	finalStateFile   = "final_state.jsonl"
)

// trajectory is one line of trajectories.jsonl. The counts let a file that
// was cut short be noticed; a count that is absent is not checked.
type trajectory struct {
	ID     string `json:"trajectory_id"`
	Domain string `json:"domain"`
	Model  string `json:"model"`
	Calls  *int   `json:"calls"`
	Writes *int   `json:"writes"`
}

// callLine is one line of calls.jsonl; the pointer tells null from "".
type callLine struct {
	Call
	Result *string `json:"result"`
}

// finalState is one line of final_state.jsonl.
type finalState struct {
	ID      string `json:"trajectory_id"`
	Changed State  `json:"changed"`
}

// sessionReader joins the three files by session id.
type sessionReader struct {
	sessions []Session
	counts   []trajectory   // beside sessions, same index
	index    map[string]int // id -> position in sessions
	ended    map[string]bool
}

func readSessions(fsys fs.FS) ([]Session, error) {
	reader := &sessionReader{index: map[string]int{}, ended: map[string]bool{}}
	if err := eachLine(fsys, trajectoriesFile, reader.addTrajectory); err != nil {
		return nil, err
	}
	if err := eachLine(fsys, callsFile, reader.addCall); err != nil {
		return nil, err
	}
	if err := eachLine(fsys, finalStateFile, reader.addFinalState); err != nil {
		return nil, err
	}
	return reader.sessions, reader.checkComplete()
}

func (r *sessionReader) addTrajectory(line trajectory) error {
	if line.ID == "" || line.Domain == "" {
		return fmt.Errorf("trajectory_id and domain are required")
	}
	if _, twice := r.index[line.ID]; twice {
		return fmt.Errorf("session %s is listed twice", line.ID)
	}
	r.index[line.ID] = len(r.sessions)
	r.sessions = append(r.sessions, Session{ID: line.ID, Domain: line.Domain, Model: line.Model})
	r.counts = append(r.counts, line)
	return nil
}

func (r *sessionReader) addCall(line callLine) error {
	session, err := r.find(line.Session)
	if err != nil {
		return err
	}
	call := line.Call
	switch {
	case call.Domain != session.Domain:
		return fmt.Errorf("session %s is of domain %q, its call of %q", session.ID, session.Domain, call.Domain)
	case call.Seq != len(session.Calls):
		return fmt.Errorf("session %s: seq is %d, expected %d", session.ID, call.Seq, len(session.Calls))
	case call.Tool == "":
		return fmt.Errorf("session %s, seq %d: no tool", session.ID, call.Seq)
	case call.Class != Write && call.Class != Read && call.Class != Noop:
		return fmt.Errorf("session %s, seq %d: unknown class %q", session.ID, call.Seq, call.Class)
	}
	call.Result = Null
	if line.Result != nil {
		call.Result = *line.Result
	}
	if len(call.Arguments) == 0 {
		call.Arguments = json.RawMessage(Null)
	}
	session.Calls = append(session.Calls, call)
	return nil
}

func (r *sessionReader) addFinalState(line finalState) error {
	session, err := r.find(line.ID)
	if err != nil {
		return err
	}
	if r.ended[line.ID] {
		return fmt.Errorf("session %s has two final states", line.ID)
	}
	r.ended[line.ID] = true
	session.Changed = line.Changed
	return nil
}

func (r *sessionReader) find(id string) (*Session, error) {
	at, ok := r.index[id]
	if !ok {
		return nil, fmt.Errorf("session %q is not in %s", id, trajectoriesFile)
	}
	return &r.sessions[at], nil
}

func (r *sessionReader) checkComplete() error {
	for i, session := range r.sessions {
		if !r.ended[session.ID] {
			return damaged(finalStateFile, 0, "session %s has no final state", session.ID)
		}
		writes := 0
		for _, call := range session.Calls {
			if call.Class == Write {
				writes++
			}
		}
		if want := r.counts[i].Calls; want != nil && *want != len(session.Calls) {
			return damaged(callsFile, 0, "session %s has %d calls, %s says %d", session.ID, len(session.Calls), trajectoriesFile, *want)
		}
		if want := r.counts[i].Writes; want != nil && *want != writes {
			return damaged(callsFile, 0, "session %s has %d writes, %s says %d", session.ID, writes, trajectoriesFile, *want)
		}
	}
	return nil
}
