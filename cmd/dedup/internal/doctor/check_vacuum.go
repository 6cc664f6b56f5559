package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// When to speak of dead rows and of bloat. The migrations have autovacuum come
// after a fiftieth of the table has died; ten times that says that it does not.
const (
	deadShare = 0.2
	deadFloor = 10_000 // rows

	bloatFactor = 3.0
	bloatFloor  = 16 << 20 // bytes
)

// vacuumState is what the statistics say about the table and its partitions.
type vacuumState struct {
	Found       bool     `json:"found"`
	Live        int64    `json:"live"`
	Dead        int64    `json:"dead"`
	LastVacuum  *string  `json:"last_vacuum"`
	Autovacuum  bool     `json:"autovacuum"`
	SwitchedOff []string `json:"switched_off"` // for these tables
	KeyBytes    int64    `json:"key_bytes"`    // of the primary key's index
	KeyWidth    float64  `json:"key_width"`    // of scope, tool and key together
}

const vacuumSQL = `
WITH target AS (
    SELECT c.oid
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1::text AND c.relname = 'tool_dedup'
), rels AS (
    SELECT c.oid, c.reloptions, format('%I.%I', n.nspname, c.relname) AS name
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind = 'r'
       AND c.oid IN (SELECT oid FROM target
                     UNION
                     SELECT tree.relid FROM target, pg_catalog.pg_partition_tree(target.oid) tree)
)
SELECT json_build_object(
    'found', EXISTS (SELECT FROM rels),
    'live', (SELECT sum(t.n_live_tup) FROM pg_catalog.pg_stat_all_tables t JOIN rels ON rels.oid = t.relid),
    'dead', (SELECT sum(t.n_dead_tup) FROM pg_catalog.pg_stat_all_tables t JOIN rels ON rels.oid = t.relid),
    'last_vacuum', (
        SELECT to_char(max(greatest(t.last_vacuum, t.last_autovacuum)) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
          FROM pg_catalog.pg_stat_all_tables t
          JOIN rels ON rels.oid = t.relid),
    'autovacuum', current_setting('autovacuum')::boolean,
    'switched_off', (
        SELECT json_agg(rels.name ORDER BY rels.name)
          FROM rels
          JOIN pg_catalog.pg_options_to_table(rels.reloptions) o ON o.option_name = 'autovacuum_enabled'
         WHERE NOT o.option_value::boolean),
    'key_bytes', (
        SELECT COALESCE(sum(pg_catalog.pg_relation_size(i.indexrelid)), 0)
          FROM pg_catalog.pg_index i
          JOIN rels ON rels.oid = i.indrelid
         WHERE i.indisprimary),
    'key_width', (
        SELECT COALESCE(sum(width), 0)
          FROM (SELECT max(p.avg_width) AS width
                  FROM pg_catalog.pg_stats p
                  JOIN rels ON rels.name = format('%I.%I', p.schemaname, p.tablename)
                 WHERE p.attname IN ('scope', 'tool', 'key')
                 GROUP BY p.attname) AS widths))`

// checkVacuum looks at what sweeping leaves behind: it costs room and time.
func checkVacuum(ctx context.Context, s *session) ([]Finding, error) {
	const id = "vacuum"
	var v vacuumState
	if err := s.read(ctx, vacuumSQL, []any{s.Schema}, &v); err != nil {
		return nil, err
	}
	if !v.Found {
		return nil, nil // it is no table, which the schema's findings say
	}
	found := slices.Concat(v.autovacuum(), v.deadRows(s.Table()), v.indexBloat(id, s.Table()))
	if found == nil {
		found = []Finding{sound(id, v.String())}
	}
	return found, nil
}

func (v *vacuumState) autovacuum() []Finding {
	const what = "autovacuum is off: what sweeping leaves is never used again, and the table and its indexes grow without end"
	var found []Finding
	if !v.Autovacuum {
		found = append(found, Finding{
			ID: IDAutovacuumOff, Severity: SeverityWarning,
			What: what, Evidence: "autovacuum = off",
			Fix: "set autovacuum = on in postgresql.conf and reload the server",
		})
	}
	for _, name := range v.SwitchedOff {
		found = append(found, Finding{
			ID: IDAutovacuumOff, Severity: SeverityWarning,
			What: what, Evidence: "autovacuum_enabled = off for " + name,
			Fix: "run: ALTER TABLE " + name + " RESET (autovacuum_enabled)",
		})
	}
	return found
}

func (v *vacuumState) deadRows(table string) []Finding {
	if v.Dead < deadFloor || float64(v.Dead) < deadShare*float64(v.Live+v.Dead) {
		return nil
	}
	return []Finding{{
		ID: IDDeadRows, Severity: SeverityWarning,
		What:     "vacuum does not keep up: calls and sweeps read past rows that are dead",
		Evidence: v.String(),
		Fix:      "look for transactions that stay open for hours (pg_stat_activity, replication slots); then, as the owner, run: VACUUM (ANALYZE) " + table,
	}}
}

func (v *vacuumState) indexBloat(id, table string) []Finding {
	if v.KeyBytes < bloatFloor {
		return nil
	}
	// A crash takes the statistics along, and who may not read the table may
	// not read them either.
	if v.KeyWidth == 0 || v.Live+v.Dead == 0 && v.LastVacuum == nil {
		return []Finding{unreadable(id,
			fmt.Sprintf("the primary key's index has %s, and there are no statistics of the table that this role may read", megabytes(float64(v.KeyBytes))),
			"run, as the owner: ANALYZE "+table)}
	}
	wanted := v.wantedKeyBytes()
	if float64(v.KeyBytes) < bloatFactor*wanted {
		return nil
	}
	return []Finding{{
		ID: IDIndexBloat, Severity: SeverityWarning,
		What:     "the primary key's index is mostly empty: every call reads more of it, and less of it stays in memory. To build it anew takes room for both meanwhile",
		Evidence: fmt.Sprintf("%s for %d records, which need some %s", megabytes(float64(v.KeyBytes)), v.Live, megabytes(wanted)),
		Fix:      "run: REINDEX TABLE CONCURRENTLY " + table,
	}}
}

// wantedKeyBytes estimates the size of the primary key's index built anew.
func (v *vacuumState) wantedKeyBytes() float64 {
	const (
		perEntry   = 8 + 4 + 4 // its header, its line pointer, its alignment
		fillfactor = 0.75
		page       = 8 << 10 // an empty one is there in any case
	)
	return page + float64(v.Live)*(perEntry+v.KeyWidth)/fillfactor
}

func (v *vacuumState) String() string {
	last := "never"
	if v.LastVacuum != nil {
		last = *v.LastVacuum
	}
	return strings.Join([]string{
		fmt.Sprintf("%d live rows", v.Live), fmt.Sprintf("%d dead", v.Dead), "last vacuum " + last,
	}, ", ")
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MB", bytes/(1<<20)) }
