//go:build !nosqlite

package sqlitestate

import (
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Models is the content of the database beside the charges, by model.
type Models struct {
	Quotas    map[string]state.Quota
	Said      map[string]state.Said // where the quotas come from, if that is known
	Days      map[string]state.DayUsage
	Cooldowns map[string]state.Cooldown
	Answers   map[string]state.Answers
	Found     map[string]state.Found
	Pools     map[string][]string // the members of the pools
	Spend     map[string]state.Spend
}

// ReadModels reads what there is of all models beside their charges.
func (s *Statements) ReadModels() (m Models, err error) {
	for _, table := range []*Table{
		quotasTable, dailyTable, cooldownsTable, causesTable, originsTable, answersTable, boundsTable, foundTable,
		poolsTable, budgetsTable, windowsTable, spendTable,
	} {
		if err := s.checkTypes(table); err != nil {
			return m, err
		}
	}
	if m.Quotas, err = s.readQuotas(); err != nil {
		return m, err
	}
	if m.Said, err = s.readSaid(); err != nil {
		return m, err
	}
	if m.Days, err = s.readDays(); err != nil {
		return m, err
	}
	if m.Cooldowns, err = s.readCooldowns(); err != nil {
		return m, err
	}
	if m.Answers, err = readTexts(s, answersTable, state.ParseAnswers); err != nil {
		return m, err
	}
	if m.Found, err = readTexts(s, foundTable, state.ParseFound); err != nil {
		return m, err
	}
	if m.Pools, err = readTexts(s, poolsTable, state.ParseMembers); err != nil {
		return m, err
	}
	m.Spend, err = readTexts(s, spendTable, state.ParseSpend)
	return m, err
}

// checkTypes refuses values that are of another type than their column. SQLite stores any
// value anywhere, and the driver would convert some of them silently.
func (s *Statements) checkTypes(t *Table) error {
	var wrong, field, value strings.Builder
	columns := t.all()
	for i, c := range columns {
		condition := fmt.Sprintf("typeof(%s) <> '%s'", c.Name, c.kind())
		if i > 0 {
			wrong.WriteString(" OR ")
		}
		wrong.WriteString(condition)
		fmt.Fprintf(&field, " WHEN %s THEN %d", condition, i)
		fmt.Fprintf(&value, " WHEN %s THEN typeof(%s) || ' ' || substr(CAST(ifnull(%[2]s, '') AS TEXT), 1, 100)", condition, c.Name)
	}
	var model, found string
	var i int
	exists, err := s.row([]any{&model, &i, &found}, "SELECT substr(CAST(ifnull(model, '') AS TEXT), 1, 200), CASE"+field.String()+
		" END, CASE"+value.String()+" END FROM "+t.Name+" WHERE "+wrong.String()+" LIMIT 1")
	if err != nil || !exists {
		return err
	}
	return Damaged("%s of %q: %s is %q, want %s", t.Name, errtext.Clip(model), columns[i].Name, errtext.Clip(found), columns[i].kind())
}

func (s *Statements) readQuotas() (map[string]state.Quota, error) {
	quotas := make(map[string]state.Quota)
	var model string
	var q state.Quota
	targets := quotaTargets(&model, &q)
	err := s.Each(func(rows *sql.Rows) error {
		if err := rows.Scan(targets...); err != nil {
			return Damaged("quotas: %w", err)
		}
		if err := q.Validate(model); err != nil {
			return Damaged("quotas: %w", err)
		}
		quotas[model] = q
		return nil
	}, selectQuotas)
	return quotas, err
}

func (s *Statements) readSaid() (map[string]state.Said, error) {
	all := make(map[string]state.Said)
	err := s.Each(func(rows *sql.Rows) error {
		var model, text string
		if err := rows.Scan(&model, &text); err != nil {
			return Damaged("origins: %w", err)
		}
		var err error
		all[model], err = parseSaid(model, text)
		return err
	}, "SELECT model, said FROM origins")
	return all, err
}

func parseSaid(model, text string) (said state.Said, err error) {
	if said, err = state.ParseSaid(text); err == nil {
		err = said.Validate(model)
	}
	if err != nil {
		return said, Damaged("origins of %q: %w", errtext.Clip(model), err)
	}
	return said, nil
}

func (s *Statements) readDays() (map[string]state.DayUsage, error) {
	days := make(map[string]state.DayUsage)
	err := s.Each(func(rows *sql.Rows) error {
		var model string
		var rowid int64
		var day state.DayUsage
		var count, tokens int // what memory holds has to fit an int
		if err := rows.Scan(&model, &rowid, &day.Start, &count, &tokens); err != nil {
			return Damaged("daily: %w", err)
		}
		if count < 0 {
			return Damaged("daily of %q: day_count is %d, want 0 or more", errtext.Clip(model), count)
		}
		if tokens < 0 {
			return Damaged("daily of %q: day_tokens is %d, want 0 or more", errtext.Clip(model), tokens)
		}
		day.Count, day.Tokens, day.Generation = int64(count), int64(tokens), generationOf(rowid)
		days[model] = day
		return nil
	}, "SELECT model, rowid, day_start, day_count, day_tokens FROM daily")
	return days, err
}

// readCooldowns reads the cooldowns with their causes. A cause whose end differs is that of an
// earlier cooldown, which a version without causes has replaced.
func (s *Statements) readCooldowns() (map[string]state.Cooldown, error) {
	cooldowns := make(map[string]state.Cooldown)
	err := s.Each(func(rows *sql.Rows) error {
		var model, cause string
		var until int64
		if err := rows.Scan(&model, &until, &cause); err != nil {
			return Damaged("cooldowns: %w", err)
		}
		cooldowns[model] = state.Cooldown{Until: time.Unix(0, until), Cause: state.KeptCause(cause)}
		return nil
	}, `SELECT c.model, c.until, ifnull(k.cause, '') FROM cooldowns c
		LEFT JOIN cooldown_causes k ON k.model = c.model AND k.until = c.until`)
	return cooldowns, err
}

// readTexts reads a table of models and texts.
func readTexts[T any](s *Statements, t *Table, parse func(text string) (T, error)) (map[string]T, error) {
	all := make(map[string]T)
	column := t.Columns[1].Name
	err := s.Each(func(rows *sql.Rows) error {
		var model, text string
		if err := rows.Scan(&model, &text); err != nil {
			return Damaged("%s: %w", t.Name, err)
		}
		is, err := parse(text)
		if err != nil {
			return Damaged("%s of %q: %s: %w", t.Name, errtext.Clip(model), column, err)
		}
		all[model] = is
		return nil
	}, "SELECT model, "+column+" FROM "+t.Name)
	return all, err
}

// ReadSnapshot reads what there is of all models of one limiter.
func (s *Statements) ReadSnapshot() (*state.Snapshot, error) {
	models, err := s.ReadModels()
	if err != nil {
		return nil, err
	}
	minutes, err := s.readCharges()
	if err != nil {
		return nil, err
	}
	return snapshotOf(models, minutes), nil
}

// charges are what the database has of the minute of one model.
type charges struct {
	requests []time.Time
	tokens   []state.Token
}

// readCharges reads the charges of all models. It makes no string for the name of a model
// that it has met before.
func (s *Statements) readCharges() (map[string]*charges, error) {
	for _, table := range []*Table{requestsTable, tokensTable} {
		if err := s.checkTypes(table); err != nil {
			return nil, err
		}
	}
	models := make(map[string]*charges)
	chargesOf := func(model sql.RawBytes) *charges {
		c := models[string(model)]
		if c == nil {
			c = &charges{}
			models[string(model)] = c
		}
		return c
	}
	var model sql.RawBytes
	var ts int64
	err := s.Each(func(rows *sql.Rows) error {
		if err := rows.Scan(&model, &ts); err != nil {
			return Damaged("requests: %w", err)
		}
		c := chargesOf(model)
		c.requests = append(c.requests, time.Unix(0, ts))
		return nil
	}, "SELECT model, ts FROM requests")
	if err != nil {
		return nil, err
	}
	var count, input int
	err = s.Each(func(rows *sql.Rows) error {
		if err := rows.Scan(&model, &ts, &count, &input); err != nil {
			return Damaged("tokens: %w", err)
		}
		if count < 0 {
			return Damaged("tokens of %q: count is %d, want 0 or more", errtext.Clip(string(model)), count)
		}
		if input < 0 || input > count {
			return Damaged("tokens of %q: input is %d, want between 0 and the count, %d", errtext.Clip(string(model)), input, count)
		}
		c := chargesOf(model)
		c.tokens = append(c.tokens, state.Token{Time: time.Unix(0, ts), Count: count, Input: input})
		return nil
	}, "SELECT model, ts, count, input FROM tokens")
	return models, err
}

// snapshotOf puts together what was read.
func snapshotOf(m Models, minutes map[string]*charges) *state.Snapshot {
	snapshot := state.NewSnapshot()
	snapshot.Quotas, snapshot.Said, snapshot.Answers, snapshot.Found = m.Quotas, m.Said, m.Answers, m.Found
	snapshot.Pools, snapshot.Spend = m.Pools, m.Spend
	for model, c := range minutes {
		usage := &state.Usage{Requests: c.requests}
		if len(c.tokens) > 0 {
			usage.Tokens = c.tokens
		}
		snapshot.Usage[model] = usage
	}
	for model, day := range m.Days {
		usage := snapshot.Usage[model]
		if usage == nil {
			usage = &state.Usage{}
			snapshot.Usage[model] = usage
		}
		usage.DayStart, usage.DayCount, usage.DayTokens = state.DayTime(day.Start), int(day.Count), int(day.Tokens)
	}
	maps.Copy(snapshot.Cooldowns, m.Cooldowns)
	return snapshot
}
