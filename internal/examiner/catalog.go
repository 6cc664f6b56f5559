package examiner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// catalog is what the server's catalogues say about the tables. Names in it
// are quoted where SQL needs that.
type catalog struct {
	// What is asked before the first effect.

	Database    string    `json:"database"`
	Schema      string    `json:"schema"`
	SchemaFound bool      `json:"schema_found"`
	Engine      Engine    `json:"engine"`
	Now         time.Time `json:"now"`
	// Tables are those that were asked for, by name.
	Tables map[string]*catalogTable `json:"tables"`

	// What is asked by FindProblems only.

	Role        string `json:"role"`
	Encoding    string `json:"encoding"`
	InRecovery  bool   `json:"in_recovery"`
	ReadOnly    bool   `json:"read_only"`
	SchemaUsage bool   `json:"schema_usage"`
	HasVersions bool   `json:"has_versions"`
	HasCitus    bool   `json:"has_citus"`
	// Applied are the versions that goose has recorded; nil if there is no
	// version table that the role may read.
	Applied []int64 `json:"-"`
	// Citus is how Citus distributes the table; nil if it does not.
	Citus *catalogCitus `json:"-"`
	// Beside are the tables that lie beside it on this node alone.
	Beside []string `json:"-"`
}

// dedup is tool_dedup; nil if it is missing.
func (c *catalog) dedup() *catalogTable { return c.Tables[dedupTable().Name] }

type catalogTable struct {
	// What is asked before the first effect.

	Name       string             `json:"name"`
	Kind       string             `json:"kind"`
	Temporary  bool               `json:"temporary"`
	Unlogged   []string           `json:"unlogged"`
	PrimaryKey *catalogPrimaryKey `json:"primary_key"`
	Triggers   []catalogTrigger   `json:"triggers"`
	Rules      []catalogRule      `json:"rules"`

	// What is asked by FindProblems only.

	OID             uint32              `json:"oid"`
	PartitionKey    string              `json:"partition_key"`
	PartitionsCover float64             `json:"partitions_cover"` // of all scopes, 1 is all
	Unreplicated    []string            `json:"unreplicated"`
	RowSecurity     bool                `json:"row_security"`
	LacksPrivileges []string            `json:"lacks_privileges"`
	Columns         []catalogColumn     `json:"columns"`
	UniqueExtra     []catalogUnique     `json:"unique_extra"`
	DueIndex        *catalogIndex       `json:"due_index"`
	Checks          []catalogConstraint `json:"checks"`
	ForeignKeys     []catalogConstraint `json:"foreign_keys"`
}

type catalogPrimaryKey struct {
	Name       string   `json:"name"`
	Index      string   `json:"index"`
	Columns    []string `json:"columns"` // sorted
	Deferrable bool     `json:"deferrable"`
	Valid      bool     `json:"valid"`
}

// catalogTrigger is a trigger that acts on records in this session.
type catalogTrigger struct {
	Name    string `json:"name"`
	Table   string `json:"table"`
	Before  bool   `json:"before"` // BEFORE, FOR EACH ROW
	Inserts bool   `json:"inserts"`
	Updates bool   `json:"updates"`
}

// catalogRule is a rule that acts on records in this session.
type catalogRule struct {
	Name    string `json:"name"`
	Table   string `json:"table"`
	Inserts bool   `json:"inserts"` // it rewrites the INSERT of a record
}

type catalogColumn struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Collation string `json:"collation"`
	NotNull   bool   `json:"not_null"`
	Filled    bool   `json:"filled"` // by a default, an identity or an expression
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

type catalogConstraint struct {
	Name       string `json:"name"`
	Table      string `json:"table"`
	Definition string `json:"definition"`
}

type catalogCitus struct {
	Column      string `json:"column"`
	SingleShard bool   `json:"single_shard"`
}

// readDecisive reads what is asked before the first effect.
func readDecisive(ctx context.Context, conn *pgx.Conn, schema string) (*catalog, error) {
	mode := execMode
	if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // whatever is on the way may know no other
	}
	cat := &catalog{}
	err := conn.QueryRow(ctx, decisiveSQL, mode, schema, []string{dedupTable().Name}).Scan(cat)
	return cat, err
}

// execMode is one round trip instead of two, leaves nothing in a statement cache and
// works behind a pooler.
const execMode = pgx.QueryExecModeExec

// readCatalog reads everything.
func readCatalog(ctx context.Context, db Querier, schema string) (*catalog, error) {
	var tables, columns []string
	for _, want := range Tables() {
		tables = append(tables, want.Name)
	}
	for _, column := range dedupTable().columns {
		columns = append(columns, column.name)
	}
	cat := &catalog{}
	err := db.QueryRow(ctx, catalogSQL, execMode, schema, tables, columns, VersionTable).Scan(cat)
	if err != nil {
		return nil, err
	}
	if !cat.HasVersions && !cat.HasCitus {
		return cat, nil
	}

	// A statement may name these tables only where they exist.
	versions, citus, beside := "NULL::bigint[]", "NULL::json", "NULL::text[]"
	if cat.HasVersions {
		versions = fmt.Sprintf(versionsSQL, cat.versionTable())
	}
	if cat.HasCitus {
		citus, beside = citusSQL, besideSQL
	}
	var oid uint32
	if table := cat.dedup(); table != nil {
		oid = table.OID
	}
	err = db.QueryRow(ctx, fmt.Sprintf("SELECT %s, %s, %s, $1::bigint, $2::text[]", versions, citus, beside),
		execMode, int64(oid), append(tables, VersionTable)).Scan(&cat.Applied, &cat.Citus, &cat.Beside, nil, nil)
	if err != nil {
		return nil, err
	}
	return cat, nil
}

func (c *catalog) versionTable() string { return c.Schema + "." + VersionTable }
