//go:build !nosqlite

package sqlitestate

import (
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The formats of the database without extensions, as its user_version. A file without one, 0, has
// the same tables.
const (
	baseFormat = 1
	// boundsFormat is that of a database with a row in boundsTable. Versions that do not know the
	// table refuse it, and go on with a database that has no such row.
	boundsFormat = 2
	// limitsFormat is that of a database with a row in poolsTable or budgetsTable: versions that do
	// not know them would take pools for models, and drop budgets.
	limitsFormat = 3
	// windowsFormat is that of a database with a row in windowsTable, or with what counts in such a
	// window.
	windowsFormat = 4
)

var (
	quotasTable = &Table{
		Name:    "quotas",
		Columns: append([]Column{modelColumn}, limitColumns(state.RPM, state.RPD)...),
		Added: append(limitColumns(state.ITPM, state.InFlight),
			Column{Name: state.ZoneKey, Text: true, Default: true},
			Column{Name: state.BurstKey, Default: true}),
		Keyed: true,
	}
	requestsTable = &Table{
		Name:    "requests",
		Columns: []Column{modelColumn, {Name: "ts"}},
	}
	tokensTable = &Table{
		Name:    "tokens",
		Columns: []Column{modelColumn, {Name: "ts"}, {Name: "count"}},
		Added:   []Column{{Name: "input", Default: true}},
	}
	dailyTable = &Table{
		Name:    "daily",
		Columns: []Column{modelColumn, {Name: "day_start"}, {Name: "day_count", Default: true}},
		Added:   []Column{{Name: "day_tokens", Default: true}},
		Keyed:   true,
	}
	cooldownsTable = &Table{
		Name:    "cooldowns",
		Columns: []Column{modelColumn, {Name: "until"}},
		Keyed:   true, Later: true,
	}
	// causesTable has the causes of those cooldowns that are not the caller's. It is no column of
	// cooldowns because versions without it refuse columns that they do not know.
	causesTable = &Table{
		Name:    "cooldown_causes",
		Columns: []Column{modelColumn, {Name: "until"}, {Name: "cause", Text: true}},
		Keyed:   true, Later: true,
	}

	// originsTable has who said those quotas that the program alone did not, as the text of
	// state.Said.
	originsTable = &Table{
		Name:    "origins",
		Columns: []Column{modelColumn, {Name: "said", Text: true}},
		Keyed:   true, Later: true,
	}

	answersTable = &Table{
		Name:    "answers",
		Columns: []Column{modelColumn, {Name: "learned", Text: true}},
		Keyed:   true, Later: true,
	}

	// boundsTable has those quotas' bounds of limits that are found. A quota without bounds has no
	// row.
	boundsTable = &Table{
		Name:    "quota_bounds",
		Columns: append([]Column{modelColumn}, boundColumns()...),
		Keyed:   true, Later: true,
	}

	// budgetsTable has those quotas' budgets of days and months. A quota without any has no row.
	budgetsTable = &Table{
		Name:    "quota_budgets",
		Columns: append([]Column{modelColumn}, budgetColumns()[:state.FirstBudgets]...),
		Keyed:   true, Later: true,
	}

	// windowsTable has those quotas' budgets that were added later. They are no columns of
	// budgetsTable because versions without them refuse columns that they do not know.
	windowsTable = &Table{
		Name:    "quota_windows",
		Columns: append([]Column{modelColumn}, budgetColumns()[state.FirstBudgets:]...),
		Keyed:   true, Later: true,
	}

	// spendTable has what was spent, as the text of state.Spend.
	spendTable = &Table{
		Name:    "spend",
		Columns: []Column{modelColumn, {Name: "spent", Text: true}},
		Keyed:   true, Later: true,
	}

	foundTable = &Table{
		Name:    "found",
		Columns: []Column{modelColumn, {Name: "found", Text: true}},
		Keyed:   true, Later: true,
	}

	// poolsTable has the members of the pools, as the text of state.PoolText. The other tables have
	// quota and usage of a pool under the same name.
	poolsTable = &Table{
		Name:    "pools",
		Columns: []Column{modelColumn, {Name: "members", Text: true}},
		Keyed:   true, Later: true,
	}

	// baseTables are those of the base format.
	baseTables = []*Table{
		quotasTable, requestsTable, tokensTable, dailyTable, cooldownsTable, causesTable, originsTable, answersTable, boundsTable, foundTable,
		poolsTable, budgetsTable, windowsTable, spendTable,
	}
)

var modelColumn = Column{Name: "model", Text: true}

// limitColumns returns the columns of the limits from first to last.
func limitColumns(first, last state.Dimension) (columns []Column) {
	for of := first; of <= last; of++ {
		columns = append(columns, Column{Name: state.Limits[of].Key, Default: true})
	}
	return columns
}

// boundColumns returns the columns of the bounds of the limits that are found.
func boundColumns() (columns []Column) {
	for _, f := range state.Adaptive {
		columns = append(columns, Column{Name: f.Key, Default: true})
	}
	return columns
}

// budgetColumns returns the columns of the budgets, those of money in micro-dollars.
func budgetColumns() (columns []Column) {
	for _, b := range state.Budgets {
		columns = append(columns, Column{Name: b.Key, Default: true})
	}
	return columns
}

// boundValues returns the values of a row of boundsTable, in the order of its columns.
func boundValues(model string, q state.Quota) []any {
	values := []any{model}
	for _, f := range state.Adaptive {
		values = append(values, *f.Of(&q))
	}
	return values
}

// budgetValues returns the values of a row of budgetsTable or windowsTable, in the order of its
// columns.
func budgetValues(model string, q state.Quota, budgets []state.Budget) []any {
	values := []any{model}
	for _, b := range budgets {
		values = append(values, b.Of(q))
	}
	return values
}

// selectQuotas yields the columns of quotasTable, and behind them those of boundsTable,
// budgetsTable and windowsTable without the model.
var selectQuotas = func() string {
	var names []string
	for _, c := range quotasTable.all() {
		names = append(names, "q."+c.Name)
	}
	for _, c := range boundColumns() {
		names = append(names, "ifnull(b."+c.Name+", 0)")
	}
	for i, c := range budgetColumns() {
		table := "s"
		if i >= state.FirstBudgets {
			table = "w"
		}
		names = append(names, "ifnull("+table+"."+c.Name+", 0)")
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM quotas q LEFT JOIN quota_bounds b ON b.model = q.model" +
		" LEFT JOIN quota_budgets s ON s.model = q.model LEFT JOIN quota_windows w ON w.model = q.model"
}()

// quotaValues returns the values of a row of quotasTable, in the order of its columns.
func quotaValues(model string, q state.Quota) []any {
	values := []any{model}
	for of := range state.Dimensions {
		values = append(values, *q.Limit(of))
	}
	return append(values, q.DayZone, int64(q.Burst))
}

// quotaTargets returns the variables that a row of selectQuotas is scanned into.
func quotaTargets(model *string, q *state.Quota) []any {
	targets := []any{model}
	for of := range state.Dimensions {
		targets = append(targets, limitColumn{q.Limit(of)})
	}
	targets = append(targets, &q.DayZone, (*int64)(&q.Burst))
	for _, f := range state.Adaptive {
		targets = append(targets, limitColumn{f.Of(q)})
	}
	for i := range state.Budgets {
		targets = append(targets, budgetColumn{&state.Budgets[i], q})
	}
	return targets
}

var indexes = []string{
	"CREATE INDEX IF NOT EXISTS idx_requests_model_ts ON requests(model, ts)",
	"CREATE INDEX IF NOT EXISTS idx_tokens_model_ts ON tokens(model, ts)",
}

// EnsureTables creates what is missing in an empty database or in one of an older version,
// and refuses one that is not ours or of a format that is not opened.
func (s *Statements) EnsureTables(formats Formats) error {
	found, err := s.checkSchema(formats)
	if err != nil {
		return err
	}
	for _, table := range baseTables {
		if err := s.Create(table); err != nil {
			return err
		}
	}
	for _, index := range indexes {
		if _, err := s.Exec(index); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		return s.SetFormat(baseFormat)
	}
	for _, table := range baseTables {
		if columns, existed := found[table.Name]; existed {
			if err := s.addColumns(table, columns); err != nil {
				return fmt.Errorf("migrate %s: %w", table.Name, err)
			}
		}
	}
	return nil
}

// DropTables drops all that EnsureTables has made.
func (s *Statements) DropTables() error {
	for _, table := range baseTables {
		if _, err := s.Exec("DROP TABLE IF EXISTS " + table.Name); err != nil {
			return err
		}
	}
	return nil
}

// CheckSchema returns an error about a database that is neither empty nor of these formats.
func (s *Statements) CheckSchema(formats Formats) error {
	_, err := s.checkSchema(formats)
	return err
}

// checkSchema makes sure that a database is empty or has our tables, with nothing that runs
// code on them, and returns the columns of those that it has. Some of ours without any of
// another program's are those of a process that died while it made them.
func (s *Statements) checkSchema(formats Formats) (found map[string][]string, err error) {
	if err := s.checkFormat(formats); err != nil {
		return nil, err
	}
	tables, err := s.Number(`SELECT count(*) FROM sqlite_master
		WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return nil, err
	}
	found = make(map[string][]string)
	complete := true
	for _, table := range baseTables {
		columns, err := s.Check(table)
		if err != nil {
			return nil, err
		}
		if columns != nil {
			found[table.Name] = columns
		} else if !table.Later {
			complete = false
		}
	}
	if tables > int64(len(found)) && !complete {
		return nil, Foreign("a database of another program")
	}
	return found, nil
}

// Format returns the format of the database.
func (s *Statements) Format() (version int64, err error) { return s.Number(`PRAGMA user_version`) }

// SetFormat sets the format of the database.
func (s *Statements) SetFormat(version int) error {
	_, err := s.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, version))
	return err
}

// checkFormat refuses a database of a format that is not opened.
func (s *Statements) checkFormat(formats Formats) error {
	version, err := s.Format()
	earliest := formats.Earliest
	if earliest == 0 {
		earliest = formats.Extended
	}
	extended := version >= int64(earliest) && version <= int64(formats.Extended)
	switch {
	case err != nil:
		return err
	case extended && formats.Refused != nil:
		return formats.Refused
	case version < 0 || version > windowsFormat && !extended:
		return Foreign("format %d, this version knows up to %d and %d", version, windowsFormat, formats.Extended)
	}
	return nil
}

// limitColumn reads a limit. An int has 32 bits on some machines: there a negative limit beyond
// them is as invalid as any other.
type limitColumn struct{ limit *int }

// Scan is called by database/sql with the value of the column.
func (c limitColumn) Scan(value any) error {
	n, ok := value.(int64)
	switch {
	case !ok:
		return fmt.Errorf("%v is no integer", value)
	case int64(int(n)) == n:
		*c.limit = int(n)
		return nil
	case n < 0:
		return fmt.Errorf("%w: %d, want 0 or more", state.ErrInvalidQuota, n)
	}
	return fmt.Errorf("%d is out of range", n)
}

// budgetColumn reads a budget.
type budgetColumn struct {
	budget *state.Budget
	of     *state.Quota
}

// Scan is called by database/sql with the value of the column.
func (c budgetColumn) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%v is no integer", value)
	}
	c.budget.Set(c.of, n)
	return nil
}
