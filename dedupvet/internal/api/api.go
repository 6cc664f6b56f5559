// Package api names the code that the analyzers recognize: the packages of dedup, pgx and the ORMs,
// and the types that run statements. They are matched by path and name, so dedupvet does not depend
// on them.
package api

import (
	"go/types"
	"slices"
	"strings"
)

// The packages that the analyzers recognize.
const (
	Dedup    = "github.com/tooldedup/dedup"
	Tool     = Dedup + "/tool"
	Runner   = Tool + "/runner"
	External = Dedup + "/external"
	SQLDedup = Dedup + "/sqldedup"
	Gorm     = Dedup + "/gormdedup"
	HTTP     = Dedup + "/httpdedup"
	MCP      = Dedup + "/mcpdedup"
	GRPC     = Dedup + "/grpcdedup"
	Connect  = Dedup + "/connectdedup"
	River    = Dedup + "/riverdedup"
	PGX      = "github.com/jackc/pgx/v5"
	Pool     = PGX + "/pgxpool"
	Conn     = PGX + "/pgconn"
	SQL      = "database/sql"
)

// IsNamed reports whether t, or the type that it points to, is the type path.name with any type
// arguments.
func IsNamed(t types.Type, path string, names ...string) bool {
	if t == nil {
		return false
	}
	named, ok := Elem(t).(*types.Named)
	return ok && isObject(named.Obj(), path, names)
}

// IsFunc reports whether fn is one of the named functions, not methods, of a package.
func IsFunc(fn *types.Func, path string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() == nil && isObject(fn, path, names)
}

// IsMethod reports whether fn is one of the named methods of the type path.recv.
func IsMethod(fn *types.Func, path, recv string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() != nil &&
		IsNamed(fn.Signature().Recv().Type(), path, recv) && isObject(fn, path, names)
}

// IsDoorTx reports whether fn returns the transaction of a handler behind a door.
func IsDoorTx(fn *types.Func) bool {
	return slices.ContainsFunc([]string{HTTP, MCP, GRPC, Connect}, func(door string) bool { return IsFunc(fn, door, "Tx") })
}

func isObject(obj types.Object, path string, names []string) bool {
	return obj.Pkg() != nil && obj.Pkg().Path() == path && slices.Contains(names, obj.Name())
}

// IsError reports whether t is the type error.
func IsError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

// Short returns a type for a message, with the name of its package.
func Short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

// InPGX reports whether a package is pgx or part of it.
func InPGX(p *types.Package) bool {
	return p != nil && (p.Path() == PGX || strings.HasPrefix(p.Path(), PGX+"/"))
}
