package api

import (
	"go/types"
)

// IsTx reports whether t is a transaction of pgx.
func IsTx(t types.Type) bool { return IsNamed(t, PGX, "Tx") || IsNamed(t, Pool, "Tx") }

// IsConn reports whether t is one connection of pgx.
func IsConn(t types.Type) bool { return IsNamed(t, PGX, "Conn") || IsNamed(t, Conn, "PgConn") }

// IsPool reports whether t runs statements that are never part of the effect's transaction.
func IsPool(t types.Type) bool { return IsNamed(t, Pool, "Pool", "Conn") }

// IsForeign reports whether t runs statements that are part of the effect's transaction only if t
// was made from a value of package sqldedup.
func IsForeign(t types.Type) bool {
	return IsPool(t) || IsNamed(t, SQL, "DB", "Tx", "Conn", "Stmt") || isORM(t)
}

// IsQueries reports whether t is made by sqlc or like it: a set of queries that WithTx binds to a
// transaction.
func IsQueries(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "WithTx")
	fn, ok := obj.(*types.Func)
	if !ok {
		return false
	}
	sig := fn.Signature()
	return sig.Params().Len() == 1 && (IsTx(sig.Params().At(0).Type()) || IsSQLTx(sig.Params().At(0).Type())) &&
		sig.Results().Len() == 1 && types.Identical(Elem(sig.Results().At(0).Type()), Elem(t))
}

// IsStatement reports whether fn, a method, runs a statement or begins a transaction, like the
// methods of pgx, database/sql and the ORMs. A method of another type counts if it returns a type
// of pgx or database/sql.
func IsStatement(fn *types.Func) bool {
	if isORM(fn.Signature().Recv().Type()) {
		return isORMStatement(fn)
	}
	switch fn.Name() {
	case "CopyFrom":
		params := fn.Signature().Params()
		return params.Len() == 4 && IsNamed(params.At(1).Type(), PGX, "Identifier")
	case "Exec", "Query", "QueryRow", "SendBatch", "Begin", "BeginTx", "BeginFunc",
		"ExecContext", "QueryContext", "QueryRowContext", "Prepare", "PrepareContext":
	default:
		return false
	}
	results := fn.Signature().Results()
	return results.Len() > 0 && ofDatabase(results.At(0).Type())
}

// IsHandle reports whether t is a transaction or a value on its connection: rows, a batch, a set of
// queries, or an interface of the application with methods of pgx.
func IsHandle(t types.Type) bool {
	switch {
	case IsTx(t), IsConn(t), IsNamed(t, PGX, "Rows", "Row", "BatchResults", "LargeObjects", "LargeObject"), IsQueries(t):
		return true
	case IsForeign(t) || !types.IsInterface(t):
		return false
	}
	methods := types.NewMethodSet(t)
	for i := range methods.Len() {
		if fn, ok := methods.At(i).Obj().(*types.Func); ok && IsStatement(fn) {
			return true
		}
	}
	return false
}

// HoldsHandle reports whether t is a handle or a struct with a handle in it.
func HoldsHandle(t types.Type) bool { return holds(t, 2) }

func holds(t types.Type, depth int) bool {
	if IsHandle(t) {
		return true
	}
	if IsForeign(t) || depth == 0 {
		return false
	}
	s, ok := Elem(t).Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range s.Fields() {
		if holds(field.Type(), depth-1) {
			return true
		}
	}
	return false
}

func ofDatabase(t types.Type) bool {
	named, ok := Elem(t).(*types.Named)
	if !ok {
		return false
	}
	pkg := named.Obj().Pkg()
	return InPGX(pkg) || pkg != nil && pkg.Path() == SQL
}

// Elem returns the type that t points to, or t.
func Elem(t types.Type) types.Type {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return t
}
