package ratelimit

import (
	"log/slog"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// attrs collects attributes of package slog, without those that are zero.
type attrs []slog.Attr

func (a *attrs) add(attr slog.Attr) { *a = append(*a, attr) }

func (a *attrs) text(key, value string) {
	if value != "" {
		a.add(slog.String(key, value))
	}
}

func (a *attrs) number(key string, value int) {
	if value != 0 {
		a.add(slog.Int(key, value))
	}
}

func (a *attrs) yes(key string, value bool) {
	if value {
		a.add(slog.Bool(key, value))
	}
}

func (a *attrs) duration(key string, value time.Duration) {
	if value != 0 {
		a.add(slog.Duration(key, value))
	}
}

func (a *attrs) time(key string, value time.Time) {
	if !value.IsZero() {
		a.add(slog.Time(key, value))
	}
}

func (a *attrs) usage(key string, u Usage) {
	if u != (Usage{}) {
		a.add(slog.Group(key, slog.Int("prompt_tokens", u.PromptTokens), slog.Int("output_tokens", u.OutputTokens)))
	}
}

// LogValue returns the decision as a group of package slog, with the keys of JSON. Fields that are
// zero are left out, except for allowed.
func (d Decision) LogValue() slog.Value {
	a := attrs{slog.Bool("allowed", d.Allowed)}
	a.text("code", string(d.Code))
	a.text("reason", d.Reason)
	a.duration("retry_after", d.RetryAfter)
	a.yes("never", d.Never)
	a.text("model", d.Model)
	a.text("cause", string(d.Cause))
	if d.Stats != (ModelStats{}) {
		a.add(slog.Any("stats", d.Stats))
	}
	return slog.GroupValue(a...)
}

// LogValue returns the stats as a group of package slog, with the keys of JSON. Fields that are
// zero are left out.
func (s ModelStats) LogValue() slog.Value {
	var a attrs
	a.number("rpm", s.RPM)
	a.number("max_rpm", s.MaxRPM)
	a.number("tpm", s.TPM)
	a.number("max_tpm", s.MaxTPM)
	a.number("rpd", s.RPD)
	a.number("max_rpd", s.MaxRPD)
	a.time("day_start", s.DayStart)
	a.number("itpm", s.ITPM)
	a.number("max_itpm", s.MaxITPM)
	a.number("otpm", s.OTPM)
	a.number("max_otpm", s.MaxOTPM)
	a.number("tpd", s.TPD)
	a.number("max_tpd", s.MaxTPD)
	a.number("in_flight", s.InFlight)
	a.number("max_in_flight", s.MaxInFlight)
	a.number("waiting", s.Waiting)
	a.time("cooldown_until", s.CooldownUntil)
	a.number("external_rpm", s.ExternalRPM)
	a.number("external_tpm", s.ExternalTPM)
	a.number("external_itpm", s.ExternalITPM)
	a.number("external_otpm", s.ExternalOTPM)
	a.number("external_rpd", s.ExternalRPD)
	a.number("external_tpd", s.ExternalTPD)
	return slog.GroupValue(a...)
}

// LogValue returns the event as a group of package slog, with the attributes of [LogEvents]. It
// copies what it shows, so the group may be kept; a handler that resolves it later needs a copy of
// the event, and of its Decision and Quota.
func (e Event) LogValue() slog.Value {
	var a attrs
	e.attributes(&a)
	return slog.GroupValue(a...)
}

// attributes adds what the event says.
func (e *Event) attributes(a *attrs) {
	a.text("event", string(e.Kind))
	if e.ID != 0 {
		a.add(slog.Uint64("call", e.ID))
	}
	a.text("model", e.Model)
	if e.Requested != e.Model {
		a.text("requested", e.Requested)
	}
	a.text("provider", string(e.Provider))
	if d := e.Decision; d != nil {
		a.text("code", string(d.Code))
		a.text("reason", d.Reason)
		a.duration("retry_after", d.RetryAfter)
		a.yes("never", d.Never)
		a.text("cause", string(d.Cause))
	}
	a.usage("estimated", e.Estimated)
	a.usage("settled", e.Settled)
	a.duration("wait", e.Wait)
	a.duration("held", e.Held)
	a.text("cause", string(e.Cause))
	a.time("until", e.Until)
	if e.Quota != nil {
		a.quota(e.Quota)
	}
	a.text("by", e.By)
	a.number("status", e.Status)
	a.text("problem", e.Problem)
	a.duration("retry_after", e.RetryAfter)
	a.text("nearest", e.Nearest)
	a.text("system", e.System)
	a.text("operation", e.Operation)
	a.duration("took", e.Took)
	if e.Err != nil {
		a.text("error", e.errorText())
	}
}

// quota adds a quota, with the keys of files.
func (a *attrs) quota(q *ModelQuota) {
	var limits attrs
	for of := range state.Dimensions {
		limits.number(state.Limits[of].Key, *q.limit(state.Dimension(of)))
	}
	limits.text("day_zone", q.DayZone)
	limits.duration("burst", q.Burst)
	if len(limits) == 0 {
		limits.add(slog.Bool("unlimited", true))
	}
	a.add(slog.Attr{Key: "quota", Value: slog.GroupValue(limits...)})
}
