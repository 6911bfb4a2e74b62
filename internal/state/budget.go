package state

import (
	"encoding/json"
	"math"
	"strconv"

	"dappco.re/go/core/go-ratelimit/money"
)

// Budget is a limit of a day or a month that few quotas have: one row of the table Budgets.
type Budget struct {
	Field   string // its name in Go
	Key     string // its key in a YAML file, and its column in a database
	Of      func(Quota) int64
	Set     func(*Quota, int64)
	Invalid string // the reason of the refusal of a negative one

	Unit
}

// Unit is how files have values.
type Unit struct {
	Form  string // of the text, for errors
	Parse func(text string) (int64, error)
	Text  func(value int64) string // which Parse reads
}

// Dollars is the unit of amounts of money.
var Dollars = Unit{
	Form: "an amount, as $12.50",
	Parse: func(text string) (int64, error) {
		a, err := money.Parse(text)
		return int64(a), err
	},
	Text: func(value int64) string { return money.Amount(value).String() },
}

// Tokens is the unit of tokens.
var Tokens = Unit{
	Form: "an integer",
	Parse: func(text string) (n int64, err error) {
		err = json.Unmarshal([]byte(text), &n) // which refuses 010: YAML 1.1 reads it as 8
		return n, err
	},
	Text: func(value int64) string { return strconv.FormatInt(value, 10) },
}

// The places of budgets in the table.
const (
	SpendPerDay = iota
	SpendPerMonth
	SpendPerTenMinutes
	TokensPerMonth
	FirstBudgets = SpendPerTenMinutes // those that tables of databases had from the beginning
)

// Budgets is the table of the budgets. Validation and files read it.
var Budgets = [...]Budget{
	SpendPerDay: {
		Field: "MaxSpendPerDay", Key: "max_spend_per_day", Unit: Dollars,
		Of:      func(q Quota) int64 { return int64(q.MaxSpendPerDay) },
		Set:     func(q *Quota, limit int64) { q.MaxSpendPerDay = money.Amount(limit) },
		Invalid: "invalid quota: MaxSpendPerDay (max_spend_per_day) is negative",
	},
	SpendPerMonth: {
		Field: "MaxSpendPerMonth", Key: "max_spend_per_month", Unit: Dollars,
		Of:      func(q Quota) int64 { return int64(q.MaxSpendPerMonth) },
		Set:     func(q *Quota, limit int64) { q.MaxSpendPerMonth = money.Amount(limit) },
		Invalid: "invalid quota: MaxSpendPerMonth (max_spend_per_month) is negative",
	},
	SpendPerTenMinutes: {
		Field: "MaxSpendPerTenMinutes", Key: "max_spend_per_ten_minutes", Unit: Dollars,
		Of:      func(q Quota) int64 { return int64(q.MaxSpendPerTenMinutes) },
		Set:     func(q *Quota, limit int64) { q.MaxSpendPerTenMinutes = money.Amount(limit) },
		Invalid: "invalid quota: MaxSpendPerTenMinutes (max_spend_per_ten_minutes) is negative",
	},
	TokensPerMonth: {
		Field: "MaxTokensPerMonth", Key: "max_tokens_per_month",
		Of:      func(q Quota) int64 { return int64(q.MaxTokensPerMonth) },
		Set:     func(q *Quota, limit int64) { q.MaxTokensPerMonth = int(max(min(limit, math.MaxInt), math.MinInt)) },
		Invalid: "invalid quota: MaxTokensPerMonth (max_tokens_per_month) is negative",
		Unit:    Tokens,
	},
}

// budgets has the bits of all budgets: it is 0 where there is none, and negative where one is.
func (q *Quota) budgets() int64 {
	return int64(q.MaxSpendPerDay|q.MaxSpendPerMonth|q.MaxSpendPerTenMinutes) | int64(q.MaxTokensPerMonth)
}

// HasBudget reports whether the quota has a budget, be it a negative one.
func (q *Quota) HasBudget() bool { return q.budgets() != 0 }

// HasWindow reports whether the quota has a budget that versions of before do not know.
func (q *Quota) HasWindow() bool {
	return int64(q.MaxTokensPerMonth)|int64(q.MaxSpendPerTenMinutes) != 0
}

// LimitsSpend reports whether a limit of spend is set, be it a negative one.
func (q *Quota) LimitsSpend() bool {
	return q.MaxSpendPerDay|q.MaxSpendPerMonth|q.MaxSpendPerTenMinutes != 0
}

// BudgetOf returns the budget that has the given key in files.
func BudgetOf(key string) (b *Budget, ok bool) {
	for i := range Budgets {
		if Budgets[i].Key == key {
			return &Budgets[i], true
		}
	}
	return nil, false
}

// invalidBudget returns the reason of a refusal by the first budget that is negative.
func (q *Quota) invalidBudget() (reason string, bad bool) {
	for i := range Budgets {
		if Budgets[i].Of(*q) < 0 {
			return Budgets[i].Invalid, true
		}
	}
	return "", false
}

// budgetsOver takes the budgets that are not set from another quota.
func (q *Quota) budgetsOver(below *Quota) {
	for i := range Budgets {
		if b := &Budgets[i]; b.Of(*q) == 0 {
			b.Set(q, b.Of(*below))
		}
	}
}
