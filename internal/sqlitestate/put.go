//go:build !nosqlite

package sqlitestate

import (
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// PutQuota stores the quota of a model, whatever was there, and reports that it did.
func (s *Statements) PutQuota(model string, q state.Quota) (stored bool, err error) {
	return s.insertQuota("INSERT OR REPLACE", model, q)
}

// addQuota stores the quota of a model that has none, and reports whether it did.
func (s *Statements) addQuota(model string, q state.Quota) (stored bool, err error) {
	return s.insertQuota("INSERT OR IGNORE", model, q)
}

// PutSaid stores who said the quota of a model; nothing where the program alone did.
func (s *Statements) PutSaid(model string, said state.Said) error {
	if said.IsEmpty() {
		_, err := s.Exec("DELETE FROM origins WHERE model = ?", model)
		return err
	}
	if err := s.ensureFormat(formatOf(said.Any)); err != nil {
		return err
	}
	_, err := s.Exec(originsTable.InsertInto("INSERT OR REPLACE"), model, said.Text())
	return err
}

// DropQuota deletes the quota of a model, and who said it.
func (s *Statements) DropQuota(model string) error {
	if _, err := s.Exec("DELETE FROM quotas WHERE model = ?", model); err != nil {
		return err
	}
	for _, t := range []*Table{boundsTable, budgetsTable, windowsTable} {
		if err := s.putBeside(t, false, []any{model}); err != nil {
			return err
		}
	}
	return s.PutSaid(model, state.Said{})
}

func (s *Statements) insertQuota(verb, model string, q state.Quota) (stored bool, err error) {
	result, err := s.Exec(quotasTable.InsertInto(verb), quotaValues(model, q)...)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if err := s.ensureFormat(formatOf(func(has func(*state.Quota) bool) bool { return has(&q) })); err != nil {
		return false, err
	}
	if err := s.putBeside(boundsTable, q.Adapts(), boundValues(model, q)); err != nil {
		return false, err
	}
	const first = state.FirstBudgets
	if err := s.putBeside(budgetsTable, q.HasBudget(), budgetValues(model, q, state.Budgets[:first])); err != nil {
		return false, err
	}
	return true, s.putBeside(windowsTable, q.HasWindow(), budgetValues(model, q, state.Budgets[first:]))
}

// putBeside stores a row beside that of a quota, which begins with its model; or none.
func (s *Statements) putBeside(t *Table, has bool, values []any) error {
	if !has {
		_, err := s.Exec("DELETE FROM "+t.Name+" WHERE model = ?", values[0])
		return err
	}
	_, err := s.Exec(t.InsertInto("INSERT OR REPLACE"), values...)
	return err
}

// formatOf returns the format of a database with some quotas, of which one may have something.
func formatOf(any func(has func(*state.Quota) bool) bool) int64 {
	switch {
	case any((*state.Quota).HasWindow):
		return windowsFormat
	case any((*state.Quota).HasBudget):
		return limitsFormat
	case any((*state.Quota).Adapts):
		return boundsFormat
	}
	return 0
}

// ensureFormat makes versions refuse the database that do not know what is in it from a format on:
// they would drop it.
func (s *Statements) ensureFormat(least int64) error {
	if least == 0 {
		return nil
	}
	version, err := s.Format()
	if err != nil || version >= least {
		return err
	}
	return s.SetFormat(int(least))
}

// PutCooldown stores the cooldown of a model. Of two for a model the later stays, with its cause,
// and of two that end at the same time the first. The caller's cause, and none, take no row.
func (s *Statements) PutCooldown(model string, c state.Cooldown) error {
	until := clock.UnixNano(c.Until)
	result, err := s.Exec(`INSERT INTO cooldowns (model, until) VALUES (?, ?)
		ON CONFLICT (model) DO UPDATE SET until = excluded.until WHERE excluded.until > until`, model, until)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if cause := state.KeptCause(c.Cause); cause != state.CauseCaller {
		_, err = s.Exec(causesTable.InsertInto("INSERT OR REPLACE"), model, until, cause)
		return err
	}
	return s.drop(causesTable, model)
}

func (s *Statements) putPool(pool, text string) error {
	if err := s.ensureFormat(limitsFormat); err != nil {
		return err
	}
	_, err := s.Exec(poolsTable.InsertInto("INSERT OR REPLACE"), pool, text)
	return err
}

// DropPool deletes the members of a pool.
func (s *Statements) DropPool(pool string) error { return s.drop(poolsTable, pool) }

// AddSpend adds a change to what was spent.
func (s *Statements) AddSpend(account string, change state.Spend) error {
	var text string
	var is state.Spend
	has, err := s.row([]any{&text}, "SELECT spent FROM spend WHERE model = ?", account)
	if err == nil && has {
		is, err = state.ParseSpend(text)
		if err != nil {
			err = Damaged("spend of %q: %w", errtext.Clip(account), err)
		}
	}
	if err != nil {
		return err
	}
	if is.Add(change); is.HasWindow() {
		if err := s.ensureFormat(windowsFormat); err != nil {
			return err
		}
	}
	_, err = s.Exec(spendTable.InsertInto("INSERT OR REPLACE"), account, state.SpendText(is))
	return err
}

// sweepSpend deletes some of the accounts of which nothing counts any more at now, in UnixNano.
func (s *Statements) sweepSpend(now int64, most int) error {
	_, err := s.Exec(`DELETE FROM spend WHERE rowid IN (SELECT rowid FROM spend WHERE CASE WHEN json_valid(spent)
		THEN json_extract(spent, '$[1]') < ?1 AND json_extract(spent, '$[4]') < ?1
		AND ifnull(json_extract(spent, '$[7]'), 0) < ?1
		AND (json_array_length(spent) < 11 OR json_extract(spent, '$[#-2]') < ?3) END LIMIT ?2)`, now, most, now-state.PaymentsLast)
	return err
}

func (s *Statements) drop(t *Table, model string) error {
	_, err := s.Exec("DELETE FROM "+t.Name+" WHERE model = ?", model)
	return err
}

// clear deletes all rows of a table.
func (s *Statements) clear(t *Table) error {
	if _, err := s.Exec("DELETE FROM " + t.Name); err != nil {
		return fmt.Errorf("clear %s: %w", t.Name, err)
	}
	return nil
}

// rowsPerInsert is how many rows one statement inserts. More make a statement longer without
// making it faster per row.
const rowsPerInsert = 100

// inserter gathers rows into statements of rowsPerInsert.
type inserter struct {
	*Statements
	head    string
	columns int
	next    *int64 // the next rowid
	args    []any
}

func (in *inserter) add(values ...any) error {
	in.args = append(append(in.args, *in.next), values...)
	*in.next++
	if len(in.args) < rowsPerInsert*in.columns {
		return nil
	}
	return in.flush()
}

// flush inserts the rows that were gathered.
func (in *inserter) flush() error {
	if len(in.args) == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", in.columns-1) + ")"
	rows := len(in.args) / in.columns
	_, err := in.Exec(in.head+row+strings.Repeat(", "+row, rows-1), in.args...)
	in.args = in.args[:0]
	return err
}
