//go:build !nosqlite

package sqlitestate

import (
	"context"
	"database/sql"
	"errors"
)

// maxRows is how many rows one query may yield. A file with more is not a minute of calls.
const maxRows = 20_000_000

// Statements runs SQL on one connection or in one transaction, and prepares each statement
// once. It is for one goroutine at a time. Those of a transaction end with it; Close those
// of a connection.
type Statements struct {
	on       preparer
	prepared map[string]*sql.Stmt
}

// preparer is a *sql.Conn or a *sql.Tx.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

var background = context.Background()

// OnConn returns Statements that run on a connection.
func OnConn(conn *sql.Conn) *Statements { return statementsOn(conn) }

func statementsOn(p preparer) *Statements {
	return &Statements{on: p, prepared: make(map[string]*sql.Stmt)}
}

// Close closes the statements, and not the connection, which would not close them.
func (s *Statements) Close() error {
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	clear(s.prepared)
	return errors.Join(errs...)
}

func (s *Statements) prepare(query string) (*sql.Stmt, error) {
	if stmt := s.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.on.PrepareContext(background, query)
	if err != nil {
		return nil, err
	}
	s.prepared[query] = stmt
	return stmt, nil
}

// Exec runs a statement.
func (s *Statements) Exec(query string, args ...any) (sql.Result, error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(background, args...)
}

// Each calls visit for each row of a query, and stops at its first error. More rows than a
// limiter can have written are damage.
func (s *Statements) Each(visit func(*sql.Rows) error, query string, args ...any) error {
	stmt, err := s.prepare(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(background, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return Damaged("more than %d rows", maxRows)
		}
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Number returns the one integer that a query yields; 0 if it yields none.
func (s *Statements) Number(query string, args ...any) (n int64, err error) {
	err = s.Each(func(rows *sql.Rows) error { return Scan(rows, query, &n) }, query, args...)
	return n, err
}

// row reads the first row of a query into the given variables, and reports whether there
// is one.
func (s *Statements) row(into []any, query string, args ...any) (found bool, err error) {
	err = s.Each(func(rows *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		return rows.Scan(into...)
	}, query, args...)
	return found, err
}

// Scan reads a row of what into the given variables. A value of another type is damage.
func Scan(rows *sql.Rows, what string, into ...any) error {
	err := rows.Scan(into...)
	if err != nil && Code(err) == 0 {
		return Damaged("%s: %w", what, err)
	}
	return err
}

// InTransaction runs work between BEGIN IMMEDIATE and COMMIT. It rolls back when work fails.
func InTransaction(db *sql.DB, work func(*Statements) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(statementsOn(tx)); err != nil {
		return err
	}
	return tx.Commit()
}

// readTransaction runs work in a transaction that writes nothing.
func readTransaction(db *sql.DB, work func(*Statements) error) error {
	tx, err := db.BeginTx(background, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return work(statementsOn(tx))
}
