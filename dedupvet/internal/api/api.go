// Package api names what the analyzers look for in the code of others: the
// packages of dedup, pgx and the ORMs, and the types that run statements. All of it is
// matched by path and name, so that dedupvet depends on none of them.
package api

import (
	"go/types"
	"slices"
	"strings"
)

// The packages that matter.
const (
	Dedup    = "github.com/tooldedup/dedup"
	Tool     = Dedup + "/tool"
	External = Dedup + "/external"
	SQLDedup = Dedup + "/sqldedup"
	Gorm     = Dedup + "/gormdedup"
	HTTP     = Dedup + "/httpdedup"
	MCP      = Dedup + "/mcpdedup"
	PGX      = "github.com/jackc/pgx/v5"
	Pool     = PGX + "/pgxpool"
	Conn     = PGX + "/pgconn"
	SQL      = "database/sql"
)

// IsNamed reports whether t, or what it points to, is the type path.name, of
// whatever type arguments.
func IsNamed(t types.Type, path string, names ...string) bool {
	if t == nil {
		return false
	}
	named, ok := Elem(t).(*types.Named)
	return ok && isObject(named.Obj(), path, names)
}

// IsFunc reports whether fn is one of the functions, not methods, of a package.
func IsFunc(fn *types.Func, path string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() == nil && isObject(fn, path, names)
}

// IsMethod reports whether fn is one of the methods of the type path.recv.
func IsMethod(fn *types.Func, path, recv string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() != nil &&
		IsNamed(fn.Signature().Recv().Type(), path, recv) && isObject(fn, path, names)
}

// IsDoorTx reports whether fn gives a handler behind one of the doors its transaction.
func IsDoorTx(fn *types.Func) bool { return IsFunc(fn, HTTP, "Tx") || IsFunc(fn, MCP, "Tx") }

func isObject(obj types.Object, path string, names []string) bool {
	return obj.Pkg() != nil && obj.Pkg().Path() == path && slices.Contains(names, obj.Name())
}

// IsError reports whether t is the type error.
func IsError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

// Short is a type as messages show it: with the last element of its path.
func Short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

// InPGX reports whether a package is pgx or one of its own.
func InPGX(p *types.Package) bool {
	return p != nil && (p.Path() == PGX || strings.HasPrefix(p.Path(), PGX+"/"))
}
