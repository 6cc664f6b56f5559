package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// catalog is what the server's catalogues say about the tables. Names in it
// are quoted where SQL needs that.
type catalog struct {
	Role       string `json:"role"`
	Database   string `json:"database"`
	Encoding   string `json:"encoding"`
	InRecovery bool   `json:"in_recovery"`
	ReadOnly   bool   `json:"read_only"`

	Schema      string `json:"schema"`
	SchemaFound bool   `json:"schema_found"`
	SchemaUsage bool   `json:"schema_usage"`
	HasVersions bool   `json:"has_versions"`
	HasCitus    bool   `json:"has_citus"`

	// Tables are those that the migrations make, by name.
	Tables map[string]*catalogTable `json:"tables"`

	// Applied are the versions that goose has recorded; nil if there is no
	// version table that the role may read.
	Applied []int64 `json:"-"`
	// Citus is how Citus distributes the table; nil if it does not.
	Citus *catalogCitus `json:"-"`
	// Plain are the tables that lie beside it on this node alone.
	Plain []string `json:"-"`
}

// dedup is tool_dedup, and lookalike tool_lookalike; nil if it is missing.
func (c *catalog) dedup() *catalogTable     { return c.Tables["tool_dedup"] }
func (c *catalog) lookalike() *catalogTable { return c.Tables["tool_lookalike"] }

type catalogTable struct {
	OID             uint32             `json:"oid"`
	Name            string             `json:"name"`
	Kind            string             `json:"kind"`
	PartitionKey    string             `json:"partition_key"`
	PartitionsCover float64            `json:"partitions_cover"` // of all scopes, 1 is all
	Unlogged        []string           `json:"unlogged"`
	Unreplicated    []string           `json:"unreplicated"`
	RowSecurity     bool               `json:"row_security"`
	LacksPrivileges []string           `json:"lacks_privileges"`
	Columns         []catalogColumn    `json:"columns"`
	PrimaryKey      *catalogPrimaryKey `json:"primary_key"`
	UniqueExtra     []catalogUnique    `json:"unique_extra"`
	DueIndex        *catalogIndex      `json:"due_index"`
	Checks          []catalogHook      `json:"checks"`
	ForeignKeys     []catalogHook      `json:"foreign_keys"`
	Triggers        []catalogHook      `json:"triggers"`
	Rules           []catalogHook      `json:"rules"`
}

type catalogColumn struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Collation string `json:"collation"`
	NotNull   bool   `json:"not_null"`
	Filled    bool   `json:"filled"` // by a default, an identity or an expression
}

type catalogPrimaryKey struct {
	Name       string   `json:"name"`
	Index      string   `json:"index"`
	Columns    []string `json:"columns"` // sorted
	Deferrable bool     `json:"deferrable"`
	Valid      bool     `json:"valid"`
}

type catalogUnique struct {
	Table      string  `json:"table"`
	Index      string  `json:"index"`
	Constraint *string `json:"constraint"`
}

type catalogIndex struct {
	Name       string `json:"name"`
	Plain      bool   `json:"plain"` // a btree of one key for all rows
	Expression string `json:"expression"`
	Valid      bool   `json:"valid"`
}

// catalogHook is something of somebody else's that acts on records.
type catalogHook struct {
	Name       string `json:"name"`
	Table      string `json:"table"`
	Definition string `json:"definition"` // of a constraint
	Inserts    bool   `json:"inserts"`    // a trigger fires for an INSERT
}

type catalogCitus struct {
	Column      string `json:"column"`
	SingleShard bool   `json:"single_shard"`
}

func readCatalog(ctx context.Context, db Querier, schema string) (*catalog, error) {
	var columns []string
	for _, column := range wantedDedup().columns {
		columns = append(columns, column.name)
	}
	// Exec mode is one round trip instead of two, leaves nothing in a statement
	// cache and works behind a pooler.
	cat := &catalog{}
	err := db.QueryRow(ctx, catalogSQL, pgx.QueryExecModeExec, schema, columns, VersionTable).Scan(cat)
	if err != nil {
		return nil, err
	}
	if !cat.HasVersions && !cat.HasCitus {
		return cat, nil
	}

	// A statement may name these tables only where they exist.
	versions, citus, plain := "NULL::bigint[]", "NULL::json", "NULL::text[]"
	if cat.HasVersions {
		versions = fmt.Sprintf(versionsSQL, cat.Schema+"."+VersionTable)
	}
	if cat.HasCitus {
		citus, plain = citusSQL, plainTablesSQL
	}
	var oid uint32
	if table := cat.dedup(); table != nil {
		oid = table.OID
	}
	own := []string{"tool_dedup", "tool_lookalike", VersionTable}
	err = db.QueryRow(ctx, fmt.Sprintf("SELECT %s, %s, %s, $1::bigint, $2::text, $3::text[]", versions, citus, plain),
		pgx.QueryExecModeExec, int64(oid), schema, own).Scan(&cat.Applied, &cat.Citus, &cat.Plain, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	return cat, nil
}

// versions returns the versions of the migrations in [FS], in order.
func versions() ([]int64, error) {
	names, err := fs.Glob(FS, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	var all []int64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the number of migration %s: %w", name, err)
		}
		all = append(all, version)
	}
	return all, nil
}
