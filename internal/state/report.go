package state

import "time"

// mostLearned is the largest limit of a provider that is believed.
const mostLearned = 1 << 40

// ReportedLimit is what a provider reports of one limit of a model, with the headers of an answer.
// It has the fields of ProviderLimit in the same order, so that one converts to the other. The zero
// value reports nothing.
type ReportedLimit struct {
	Limit        int // the maximum
	Remaining    int // the remaining amount, if HasRemaining
	HasRemaining bool
	Reset        time.Duration // the time until the whole limit is available again
	Rounding     int           // the unit to which Remaining was rounded
}

// SaysRemaining reports whether the report has a possible remaining amount.
func (l *ReportedLimit) SaysRemaining() bool { return l.HasRemaining && l.Remaining >= 0 }

// ReportedCounts are the charges to a limit that the limiter knows of.
type ReportedCounts struct {
	Now       int // at present
	Uncounted int // the part of them that the provider may not have counted when it answered
	AtCall    int // just after the answered call was charged; 0 where that is unknown
}

// External returns how much of a limit others use, by a report with a remaining amount. Neither the
// limit nor the present charges may be negative.
func (l *ReportedLimit) External(limit int, c ReportedCounts) int {
	left := AddSaturated(l.Remaining, max(l.Rounding, 0)/2)
	counted := max(c.Now-min(c.Uncounted, c.Now), c.AtCall)
	amount := max(limit-left, 0) // the parts are not negative, so this does not overflow
	return max(amount-counted, 0)
}

// Lasts returns how long the report holds, in nanoseconds: until Reset, at most for the given time.
func (l *ReportedLimit) Lasts(most int64) int64 {
	if 0 < l.Reset && int64(l.Reset) < most {
		return int64(l.Reset)
	}
	return most
}

// ReportedLimits is a report of the limits of a model, by dimension, and tells what the quota
// should be.
type ReportedLimits [InFlight]ReportedLimit

// SaysMinute reports whether the report has a possible limit of the minute.
func (ls *ReportedLimits) SaysMinute() bool {
	for of := range ls {
		if n := ls[of].Limit; n > 0 && int64(n) <= mostLearned && Limits[of].Window == Minute {
			return true
		}
	}
	return false
}

// differs reports whether a dimension has a limit that is believed and not that of a quota.
func (ls *ReportedLimits) differs(of Dimension, q *Quota) bool {
	limit := ls[of].Limit
	return 0 < limit && int64(limit) <= mostLearned && limit != *q.Limit(of)
}

// Differ reports whether Correct might return another quota.
func (ls *ReportedLimits) Differ(q *Quota) bool {
	for of := range InFlight {
		if ls.differs(of, q) {
			return true
		}
	}
	return false
}

// Correct returns a quota with the limits of the report, but none above a limit of most.
func (ls *ReportedLimits) Correct(q, most *Quota) Quota {
	next := *q
	for of := range InFlight {
		if !ls.differs(of, q) {
			continue
		}
		limit := ls[of].Limit
		if bound := *most.Limit(of); bound > 0 {
			limit = min(limit, bound)
		}
		*next.Limit(of) = limit
	}
	return next
}
