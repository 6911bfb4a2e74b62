package state

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// Token is the tokens of one request. Input is a part of Count.
type Token struct {
	Time  time.Time
	Count int
	Input int
}

// CheckInput refuses more input tokens than there are tokens: no version wrote that, as
// none wrote a negative count.
func (t Token) CheckInput() error {
	if t.Input > t.Count {
		return fmt.Errorf("%d is more than the count, %d", t.Input, t.Count)
	}
	return nil
}

// Usage is the usage of a model: the charges of the minute, oldest first, and the day.
type Usage struct {
	Requests  []time.Time
	Tokens    []Token
	DayStart  time.Time
	DayCount  int // requests since DayStart
	DayTokens int // tokens since DayStart
}

// Day returns the day as databases store it.
func (u *Usage) Day() DayUsage {
	return DayUsage{Start: clock.UnixNano(u.DayStart), Count: int64(u.DayCount), Tokens: int64(u.DayTokens)}
}

// Snapshot is quotas, usage, cooldowns and what was learned of all models as they are stored, apart
// from any limiter.
type Snapshot struct {
	Quotas    map[string]Quota // that hold
	Usage     map[string]*Usage
	Cooldowns map[string]Cooldown
	Said      map[string]Said    // where the quotas come from; a file before there was that has none
	Answers   map[string]Answers // what was learned of the models' answers
	Found     map[string]Found   // what was found of the models' limits
	Spend     map[string]Spend   // what was spent, by account

	// Pools are the members of pools, by their counted names, under which the other maps have them.
	Pools map[string][]string
}

// NewSnapshot returns an empty snapshot that can be filled.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Quotas:    make(map[string]Quota),
		Usage:     make(map[string]*Usage),
		Cooldowns: make(map[string]Cooldown),
		Said:      make(map[string]Said),
		Answers:   make(map[string]Answers),
		Found:     make(map[string]Found),
		Pools:     make(map[string][]string),
		Spend:     make(map[string]Spend),
	}
}
