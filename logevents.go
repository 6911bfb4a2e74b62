package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// LogOptions says what [LogEvents] writes. The zero value is a good choice for production.
type LogOptions struct {
	// Levels are the levels of kinds, in place of those that LogEvents lists. The map is copied.
	Levels map[EventKind]slog.Level
	// DenialsEvery thins out the refusals: of each model and code the first is written, and then
	// one of so many, in which left_out says how many were not. Zero means 100, 1 all of them, and
	// less than zero none. When 1,024 models and codes have been refused, further models count
	// together. The number thins out storms of other kinds, too, but for those that are written at
	// debug by default: of each kind and model LogEvents writes the first ten in a minute, and then
	// one of so many; less than zero means 100 there. Of the models in a minute it tells 128 apart.
	DenialsEvery int
}

// LogEvents returns a handler for Config.Events that writes each event to a logger, with its
// context. A nil logger is slog.Default(), as it is at each event.
//
// The levels are: error for EventStoreDown; warning for EventRefused, EventExpired,
// EventCooldownBegan, EventProviderRefused, EventUnknownModel and EventUncounted; info for
// EventCooldownEnded, EventQuotaChanged and EventStoreUp; debug for all others. An EventSaved with
// an error has the level of EventStoreDown. Events that are not written cost no allocation.
//
// The attributes are, where they are not zero: event (the kind), call (Event.ID), model, requested
// (if it is another name than model), class, pool, provider, estimated and settled (groups of
// prompt_tokens and output_tokens), cost, wait, held, until, quota (a group with the keys of
// files), by, status, problem, nearest, path, system, operation, took and error; of a decision
// code, reason, never and cause; cause also of a cooldown; retry_after of a decision or a
// provider's refusal; left_out of a sampled event. The names are stable.
//
// No record contains a key, a prompt or a reply. Of the error of a context that the program made
// only the type is written, unless it is of this package or package context.
func LogEvents(logger *slog.Logger, options LogOptions) EventHandler {
	every := cmp.Or(max(options.DenialsEvery, 0), 100)
	h := &logHandler{logger: logger, kinds: maps.Clone(logKinds), storms: make(map[EventKind]*notice.Storm)}
	for kind, is := range logKinds {
		if is.level > slog.LevelDebug || kind == EventSaved { // see takes for the latter
			h.storms[kind] = notice.NewStorm(every)
		}
	}
	for kind, level := range options.Levels {
		h.kinds[kind] = logKind{level, logKinds[kind].message}
	}
	if options.DenialsEvery >= 0 {
		h.denials = notice.NewSampler(every)
	}
	return h
}

// logKind is how events of a kind are written.
type logKind struct {
	level   slog.Level
	message string // for people
}

var logKinds = map[EventKind]logKind{
	EventQueued:          {slog.LevelDebug, "ratelimit: a call stands in line"},
	EventAdmitted:        {slog.LevelDebug, "ratelimit: a call was admitted"},
	EventPassed:          {slog.LevelDebug, "ratelimit: a wait is over"},
	EventRefused:         {slog.LevelWarn, "ratelimit: a call was refused"},
	EventSettled:         {slog.LevelDebug, "ratelimit: a call was settled"},
	EventReleased:        {slog.LevelDebug, "ratelimit: a reservation was released"},
	EventExpired:         {slog.LevelWarn, "ratelimit: a reservation was never settled"},
	EventRecorded:        {slog.LevelDebug, "ratelimit: usage was recorded"},
	EventCooldownBegan:   {slog.LevelWarn, "ratelimit: a cooldown began"},
	EventCooldownEnded:   {slog.LevelInfo, "ratelimit: a cooldown ended"},
	EventQuotaChanged:    {slog.LevelInfo, "ratelimit: a quota changed"},
	EventProviderRefused: {slog.LevelWarn, "ratelimit: the provider refused a call"},
	EventUnknownModel:    {slog.LevelWarn, "ratelimit: a model has no quota"},
	EventUncounted:       {slog.LevelWarn, "ratelimit: nothing counts a call"},
	EventEvicted:         {slog.LevelDebug, "ratelimit: a model was forgotten"},
	EventStoreDown:       {slog.LevelError, "ratelimit: the store cannot be used"},
	EventStoreUp:         {slog.LevelInfo, "ratelimit: the store can be used again"},
	EventSaved:           {slog.LevelDebug, "ratelimit: the state was saved"},
}

// logHandler writes events to a logger. It never changes.
type logHandler struct {
	logger  *slog.Logger // nil for slog.Default
	kinds   map[EventKind]logKind
	denials *notice.Sampler             // nil writes none
	storms  map[EventKind]*notice.Storm // of the kinds that are thinned out; nil for others
}

// HandleEvent implements [EventHandler].
func (h *logHandler) HandleEvent(ctx context.Context, e *Event) {
	logger := h.logger
	if logger == nil {
		logger = slog.Default()
	}
	kind, known := h.kinds[e.Kind]
	switch {
	case !known: // of a later version
		kind = logKind{slog.LevelDebug, "ratelimit: an event"}
	case e.Kind == EventSaved && e.Err != nil:
		kind = logKind{h.kinds[EventStoreDown].level, "ratelimit: the state could not be saved"}
	}
	if !logger.Enabled(ctx, kind.level) {
		return
	}
	take, leftOut := h.takes(e)
	if !take {
		return
	}
	a := make(notice.Attrs, 0, 16)
	e.attributes(&a)
	a.Number("left_out", leftOut)
	logger.LogAttrs(ctx, kind.level, kind.message, a...)
}

// takes reports whether an event is written, and how many of its kind were not since the last.
func (h *logHandler) takes(e *Event) (take bool, leftOut int) {
	switch {
	case e.Kind == EventRefused && e.Decision != nil:
		return h.denials.Take(e.Model, string(e.Decision.Code))
	case e.Kind == EventRefused:
		return h.denials.Take(e.Model, "")
	case e.Kind == EventSaved && e.Err == nil:
		return true, 0
	}
	return h.storms[e.Kind].Take(e.Model)
}

// knownErrors are the errors whose texts are this package's, or package context's.
var knownErrors = []error{
	ErrNeverFits, ErrQueueFull, ErrMaxWait, ErrClosed, ErrInvalidTokens, context.Canceled, context.DeadlineExceeded,
}

// errorText returns the error as it may be written. Errors of a store and a file are the limiter's.
// The error of a call may be that of the caller's context, which may say anything.
func (e *Event) errorText() string {
	if e.ID == 0 && e.Kind != EventRefused {
		return e.Err.Error()
	}
	for _, known := range knownErrors {
		if errors.Is(e.Err, known) {
			return known.Error()
		}
	}
	return fmt.Sprintf("%T", e.Err)
}

// LogValue returns the decision as a group with the keys of JSON, without zero fields but allowed.
func (d Decision) LogValue() slog.Value { return notice.FieldsOf(d) }

// LogValue returns the stats as a group with the keys of JSON, without zero fields.
func (s ModelStats) LogValue() slog.Value { return notice.FieldsOf(s) }

// LogValue returns the event as a group of package slog, with the attributes of [LogEvents]. The
// group may be kept; who resolves the event later needs a copy, also of Decision and Quota.
func (e Event) LogValue() slog.Value {
	var a notice.Attrs
	e.attributes(&a)
	return slog.GroupValue(a...)
}

// attributes adds what the event says.
func (e *Event) attributes(a *notice.Attrs) {
	a.Text("event", string(e.Kind))
	if e.ID != 0 {
		*a = append(*a, slog.Uint64("call", e.ID))
	}
	a.Name("model", e.Model)
	if e.Requested != e.Model {
		a.Name("requested", e.Requested)
	}
	if e.Class != "" { // which the configuration bounds
		a.Text("class", e.Class)
	}
	a.Name("pool", e.Pool)
	a.Text("provider", string(e.Provider))
	if d := e.Decision; d != nil {
		a.Text("code", string(d.Code))
		a.Text("reason", d.Reason)
		a.Duration("retry_after", d.RetryAfter)
		a.Yes("never", d.Never)
		a.Text("cause", string(d.Cause))
	}
	a.Tokens("estimated", e.Estimated.PromptTokens, e.Estimated.OutputTokens)
	a.Tokens("settled", e.Settled.PromptTokens, e.Settled.OutputTokens)
	a.Amount("cost", e.Cost)
	a.Duration("wait", e.Wait)
	a.Duration("held", e.Held)
	a.Text("cause", string(e.Cause))
	a.Time("until", e.Until)
	if e.Quota != nil {
		a.Quota((*state.Quota)(e.Quota))
	}
	a.Text("by", e.By)
	a.Number("status", e.Status)
	a.Text("problem", e.Problem)
	a.Duration("retry_after", e.RetryAfter)
	a.Name("nearest", e.Nearest)
	a.Text("path", e.Path)
	a.Text("system", e.System)
	a.Text("operation", e.Operation)
	a.Duration("took", e.Took)
	if e.Err != nil {
		a.Text("error", errtext.Cut(e.errorText(), 1000)) // it may name a model
	}
}
