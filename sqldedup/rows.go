package sqldedup

import (
	"database/sql/driver"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows is a result set. Its values equal those of pgx's own driver for database/sql, type by type:
// TestTypes compares the two.
type rows struct {
	c      *conn
	from   pgx.Rows
	fields []pgconn.FieldDescription
	// values convert the columns; nil before the first row.
	values []valueOf
	// peeked is true if the first row was read ahead; more is true if there is one.
	peeked, more bool
	// cut is the reason if the session closed the rows early.
	cut error
}

var (
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
)

func (r *rows) Columns() []string {
	names := make([]string, len(r.fields))
	for i, field := range r.fields {
		names[i] = field.Name
	}
	return names
}

func (r *rows) Next(dest []driver.Value) error {
	if err := r.c.session.enter(); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	if r.cut != nil {
		return r.cut
	}
	more := r.more
	if !r.peeked {
		more = r.from.Next()
	}
	r.peeked = false
	if !more {
		if err := r.from.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if r.values == nil {
		types := r.from.TypeMap()
		for _, field := range r.fields {
			r.values = append(r.values, scannerOf(types, field))
		}
	}
	for i, raw := range r.from.RawValues() {
		dest[i] = nil
		if raw == nil {
			continue
		}
		value, err := r.values[i](raw)
		if err != nil {
			return fmt.Errorf("sqldedup: reading column %q: %w", r.fields[i].Name, err)
		}
		dest[i] = value
	}
	return nil
}

func (r *rows) Close() error {
	if r.c.session.enter() != nil {
		return nil // leave has closed it
	}
	defer r.c.mu.Unlock()
	return r.end()
}

// end reads the rest, because an error of the statement may follow.
func (r *rows) end() error {
	if r.c.reading == r {
		r.c.reading = nil
	}
	r.from.Close()
	return r.from.Err()
}

// cutBy closes the rows if they belong to one of these savepoints, which are about to be rolled
// back.
func (r *rows) cutBy(saved []*savepoint, why error) bool {
	if !slices.ContainsFunc(saved, func(t *savepoint) bool { return t.of == r.c }) {
		return false
	}
	r.cut = why
	_ = r.end()
	return true
}

// binaries are the types that are requested in binary, as pgx's driver does. All others come as
// text, for a *string or []byte.
var binaries = []uint32{
	pgtype.BoolOID, pgtype.ByteaOID, pgtype.CIDOID, pgtype.DateOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.Int2OID,
	pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.XIDOID,
}

// resultFormats is the first argument of a query.
var resultFormats = func() pgx.QueryResultFormatsByOID {
	formats := pgx.QueryResultFormatsByOID{}
	for _, oid := range binaries {
		formats[oid] = pgx.BinaryFormatCode
	}
	return formats
}()

// valueOf converts the server's bytes to a value of database/sql.
type valueOf func(raw []byte) (driver.Value, error)

func scannerOf(types *pgtype.Map, field pgconn.FieldDescription) valueOf {
	switch field.DataTypeOID {
	case pgtype.BoolOID:
		return scan(types, field, func(v bool) (driver.Value, error) { return v, nil })
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return scan(types, field, func(v int64) (driver.Value, error) { return v, nil })
	case pgtype.CIDOID, pgtype.OIDOID, pgtype.XIDOID:
		return scan(types, field, pgtype.Uint32.Value)
	case pgtype.Float4OID:
		return scan(types, field, func(v float32) (driver.Value, error) { return float64(v), nil })
	case pgtype.Float8OID:
		return scan(types, field, func(v float64) (driver.Value, error) { return v, nil })
	case pgtype.DateOID:
		return scan(types, field, pgtype.Date.Value)
	case pgtype.TimestampOID:
		return scan(types, field, pgtype.Timestamp.Value)
	case pgtype.TimestamptzOID:
		return scan(types, field, pgtype.Timestamptz.Value)
	case pgtype.ByteaOID, pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID:
		return scan(types, field, func(v []byte) (driver.Value, error) { return v, nil })
	default:
		return scan(types, field, func(v string) (driver.Value, error) { return v, nil })
	}
}

// scan reads a column as a T.
func scan[T any](types *pgtype.Map, field pgconn.FieldDescription, value func(T) (driver.Value, error)) valueOf {
	var shape T
	plan := types.PlanScan(field.DataTypeOID, field.Format, &shape)
	return func(raw []byte) (driver.Value, error) {
		var v T
		if err := plan.Scan(raw, &v); err != nil {
			return nil, err
		}
		return value(v)
	}
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if known, ok := r.from.TypeMap().TypeForOID(r.fields[i].DataTypeOID); ok {
		return strings.ToUpper(known.Name)
	}
	return strconv.FormatInt(int64(r.fields[i].DataTypeOID), 10)
}

const (
	// header is the part of a type's modifier that is not the length.
	header = 4
	// unlimited is the modifier of a type without a length or a precision.
	unlimited = -1
	// microseconds are the decimal places of a time without a precision.
	microseconds = 6
)

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	field := r.fields[i]
	switch field.DataTypeOID {
	case pgtype.TextOID, pgtype.ByteaOID:
		return math.MaxInt64, true
	case pgtype.VarcharOID, pgtype.BPCharOID, pgtype.VarbitOID:
		switch {
		case field.TypeModifier == unlimited:
			return math.MaxInt64, true
		case field.DataTypeOID == pgtype.VarbitOID:
			return int64(field.TypeModifier), true
		}
		return int64(field.TypeModifier - header), true
	}
	return 0, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	field := r.fields[i]
	switch field.DataTypeOID {
	case pgtype.NumericOID:
		if field.TypeModifier == unlimited {
			return 0, 0, false
		}
		modifier := field.TypeModifier - header
		return int64(modifier >> 16 & 0xffff), int64(modifier & 0xffff), true
	case pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.TimeOID, pgtype.TimetzOID:
		if field.TypeModifier == unlimited {
			return 0, microseconds, true
		}
		return 0, int64(field.TypeModifier), true
	case pgtype.IntervalOID: // the upper half has the fields, such as HOUR TO SECOND
		if field.TypeModifier == unlimited || field.TypeModifier&0xffff == 0xffff {
			return 0, microseconds, true
		}
		return 0, int64(field.TypeModifier & 0xffff), true
	}
	return 0, 0, false
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	switch r.fields[i].DataTypeOID {
	case pgtype.BoolOID:
		return reflect.TypeFor[bool]()
	case pgtype.Int2OID:
		return reflect.TypeFor[int16]()
	case pgtype.Int4OID:
		return reflect.TypeFor[int32]()
	case pgtype.Int8OID:
		return reflect.TypeFor[int64]()
	case pgtype.Float4OID:
		return reflect.TypeFor[float32]()
	case pgtype.Float8OID, pgtype.NumericOID:
		return reflect.TypeFor[float64]()
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID:
		return reflect.TypeFor[time.Time]()
	case pgtype.ByteaOID:
		return reflect.TypeFor[[]byte]()
	default:
		return reflect.TypeFor[string]()
	}
}
