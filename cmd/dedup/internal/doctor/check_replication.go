package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// replication is what the server says about its standbys.
type replication struct {
	InRecovery bool      `json:"in_recovery"`
	Role       string    `json:"role"`
	Standbys   []standby `json:"standbys"`
	Away       []string  `json:"away"` // slots of standbys that are not connected
}

type standby struct {
	Name  string  `json:"name"`
	State *string `json:"state"` // nil: the role may not see it
	Sync  string  `json:"sync"`
}

// A base backup that runs and a subscriber of a publication are no standbys that
// could take over.
const replicationSQL = `
SELECT json_build_object(
    'in_recovery', pg_catalog.pg_is_in_recovery(),
    'role', quote_ident(current_user),
    'standbys', (
        SELECT json_agg(json_build_object('name', r.application_name, 'state', r.state, 'sync', r.sync_state) ORDER BY r.pid)
          FROM pg_catalog.pg_stat_replication r
         WHERE r.state IS DISTINCT FROM 'backup'
           AND NOT EXISTS (SELECT
                             FROM pg_catalog.pg_replication_slots l
                            WHERE l.active_pid = r.pid AND l.slot_type = 'logical')),
    'away', (
        SELECT json_agg(l.slot_name ORDER BY l.slot_name)
          FROM pg_catalog.pg_replication_slots l
         WHERE l.slot_type = 'physical' AND NOT l.active AND NOT l.temporary))`

// checkReplication looks at what a failover would lose.
func checkReplication(ctx context.Context, s *session) ([]Finding, error) {
	const id = "replication"
	var r replication
	if err := s.read(ctx, replicationSQL, nil, &r); err != nil {
		return nil, err
	}
	read, err := readSettings(ctx, s, "synchronous_commit", "synchronous_standby_names")
	if err != nil {
		return nil, err
	}
	if r.InRecovery {
		return []Finding{unreadable(id, "this server is a standby", "run it on the primary")}, nil
	}
	found := r.away()
	if r.hidden() {
		return append(found, unreadable(id,
			fmt.Sprintf("role %s may see that %d connections replicate, and not how", r.Role, len(r.Standbys)),
			"run: GRANT pg_read_all_stats TO "+r.Role)), nil
	}
	names := read.effective("synchronous_standby_names")
	found = append(found, r.missing(names, read.effective("synchronous_commit"))...)
	found = append(found, r.asynchronous(names)...)
	if found == nil {
		found = append(found, sound(id, r.String()))
	}
	return found, nil
}

func (r *replication) away() []Finding {
	if r.Away == nil {
		return nil
	}
	return []Finding{{
		ID: IDStandbyDisconnected, Severity: SeverityWarning,
		What: "a standby that has a replication slot is not connected: it lags behind more and more, and WAL is kept for it without end. " +
			"If it takes over all the same, all calls since it left are gone, each with its effect and its record together",
		Evidence: "inactive physical slots: " + strings.Join(r.Away, ", "),
		Fix:      "connect the standby, or if it is gone for good drop its slot: SELECT pg_drop_replication_slot('…')",
	}}
}

func (r *replication) missing(names, level setting) []Finding {
	if !r.waitsForNobody(names, level) {
		return nil
	}
	return []Finding{{
		ID: IDStandbyMissing, Severity: SeverityError,
		What: "COMMIT waits for more synchronous standbys than are connected: no call is answered. " +
			"Each ends in ErrOutcomeUnknown when its context does, and its COMMIT takes effect all the same",
		Evidence: names.evidence() + "; connected: " + r.String(),
		Fix:      "connect what is missing, or ask for no more than is there: synchronous_standby_names in postgresql.conf, and reload the server",
	}}
}

func (r *replication) asynchronous(names setting) []Finding {
	late := r.with("async")
	if late == nil {
		return nil
	}
	return []Finding{{
		ID: IDStandbyAsynchronous, Severity: SeverityWarning,
		What:     fmt.Sprintf("standby %s replicates asynchronously. If it takes over, %s", strings.Join(late, ", "), lostByFailover),
		Evidence: r.String() + "; " + names.evidence(),
		Fix:      "name it in synchronous_standby_names in postgresql.conf and reload the server; or never let it take over; or accept the loss",
	}}
}

// hidden reports whether the role may not see the standbys' states.
func (r *replication) hidden() bool {
	for _, one := range r.Standbys {
		if one.State == nil {
			return true
		}
	}
	return false
}

// waitsForNobody reports whether a COMMIT of the library's would wait for more
// standbys than are there. Where synchronous_commit is off the library turns it on.
func (r *replication) waitsForNobody(names, level setting) bool {
	if names.value == "" || level.value == "local" {
		return false
	}
	return len(r.with("sync"))+len(r.with("quorum")) < waitedFor(names.value)
}

// waitedFor is the number of standbys that a value of synchronous_standby_names
// asks for, such as 2 in "ANY 2 (a, b, c)".
func waitedFor(names string) int {
	match := regexp.MustCompile(`(?i)^\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(`).FindStringSubmatch(names)
	if match == nil {
		return 1
	}
	count, _ := strconv.Atoi(match[1]) // nothing but digits; the server has read it too
	return count
}

// with returns the names of the standbys that replicate in this way.
func (r *replication) with(sync string) []string {
	var names []string
	for _, one := range r.Standbys {
		if one.Sync == sync {
			names = append(names, one.Name)
		}
	}
	return names
}

// String lists the standbys.
func (r *replication) String() string {
	if len(r.Standbys) == 0 {
		return "no standby"
	}
	var all []string
	for _, one := range r.Standbys {
		all = append(all, one.Name+" ("+one.Sync+")")
	}
	return strings.Join(all, ", ")
}
