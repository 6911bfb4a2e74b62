// Package profile reads the built-in profiles, one JSON file a provider: which tiers it has, what
// it allows which models at a tier, how it counts, and where and when that was read. The root
// makes DefaultProfiles, Profile and Tiers of them; the tests here check the files and print
// docs/providers.md. It also knows which of them a limiter has loaded.
package profile

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// FreshFor is how long a row counts as current after the day it was read: 90 days.
const FreshFor = 90 * 24 * time.Hour

// Provider is one file. It never changes after Parse.
type Provider struct {
	Name     string `json:"provider"`
	Source   string `json:"source"` // the page on its limits and how it counts
	Note     string `json:"note"`   // for docs/providers.md
	Tiers    []Tier `json:"tiers"`  // the lowest first, earlier ones last
	Counting []Rule `json:"counting"`
	Rows     []Row  `json:"rows"`
	Pools    []Row  `json:"pools"` // what models share, for programs that ask for it; Group is its name

	NoFigure   NoFigure    `json:"no_figure"`
	Statements []Statement `json:"statements"` // for docs/providers.md
}

// NoFigure is the models of which no current figure is known, and why. None means that nothing is
// said of models without a row.
type NoFigure struct {
	Models []string `json:"models"` // names and patterns; "*" is every model without a row
	Why    string   `json:"why"`    // for docs/providers.md
}

// Statement is what a provider says that it counts, and what of that no quota can express.
type Statement struct {
	Counts string `json:"counts"`
	Beyond string `json:"beyond"` // empty where a quota expresses all of it
	Source string `json:"source"`
	ReadOn Day    `json:"read_on"`
}

// Tier is what a provider calls a kind of account.
type Tier struct {
	Name string `json:"name"`
	Paid bool   `json:"paid"`
	// Earlier marks a tier of names that the provider no longer uses. They are no measure of
	// those that it uses now.
	Earlier bool `json:"earlier"`
}

// Row is what a provider allows each of some models at some of its tiers.
type Row struct {
	Tiers    []string `json:"tiers"`    // none in a row of the source document
	Models   []string `json:"models"`   // names and patterns
	Group    string   `json:"group"`    // models of a group share one bucket; "" if each has its own
	Limits   Limits   `json:"limits"`   // all zero only in a row of the source document
	Counting []Rule   `json:"counting"` // in place of the provider's, if there are any

	Source     string     `json:"source"`
	ReadOn     Day        `json:"read_on"`
	Confidence Confidence `json:"confidence"`
	Note       string     `json:"note"`
}

// At reports whether the row is one of a tier.
func (r *Row) At(tier string) bool { return slices.Contains(r.Tiers, tier) }

// FirstTier returns the first tier of the row, "" for a row of the source document.
func (r *Row) FirstTier() string {
	if len(r.Tiers) == 0 {
		return ""
	}
	return r.Tiers[0]
}

// Limits are the figures of a row; zero is no figure.
type Limits struct {
	RPM      int `json:"rpm"`
	TPM      int `json:"tpm"`
	ITPM     int `json:"itpm"`
	OTPM     int `json:"otpm"`
	RPD      int `json:"rpd"`
	TPD      int `json:"tpd"`
	InFlight int `json:"in_flight"`

	DayZone string `json:"day_zone"` // IANA name

	// Of Pools alone: a limit of spend has models without a price be refused.
	SpendPerTenMinutes money.Amount `json:"spend_per_ten_minutes"`
	SpendPerMonth      money.Amount `json:"spend_per_month"`
}

// Quota returns the limits as the limiter knows them.
func (l *Limits) Quota() state.Quota {
	return state.Quota{
		MaxRPM: l.RPM, MaxTPM: l.TPM, MaxRPD: l.RPD,
		MaxITPM: l.ITPM, MaxOTPM: l.OTPM, MaxTPD: l.TPD, MaxInFlight: l.InFlight,
		DayZone: l.DayZone, MaxSpendPerTenMinutes: l.SpendPerTenMinutes, MaxSpendPerMonth: l.SpendPerMonth,
	}
}

// Confidence says how a row is known.
type Confidence string

// The confidences, the best first.
const (
	Published      Confidence = "published"       // the provider's own page
	Measured       Confidence = "measured"        // a refusal of the provider named the figure
	SecondHand     Confidence = "second-hand"     // somebody else read the provider's page
	SourceDocument Confidence = "source document" // DefaultProfiles promises it, whatever the provider does
)

// Day is a day of the calendar, as YYYY-MM-DD in a file. The zero value is no day.
type Day struct{ start time.Time }

// Time returns the midnight UTC that begins the day.
func (d Day) Time() time.Time { return d.start }

// String returns the day as YYYY-MM-DD.
func (d Day) String() string { return d.start.Format(time.DateOnly) }

// UnmarshalText reads YYYY-MM-DD.
func (d *Day) UnmarshalText(text []byte) (err error) {
	d.start, err = time.Parse(time.DateOnly, string(text))
	return err
}

// MarshalText writes YYYY-MM-DD.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
