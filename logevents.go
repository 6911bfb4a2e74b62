package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"dappco.re/go/core/go-ratelimit/internal/sample"
)

// LogOptions says what [LogEvents] writes. The zero value is a good choice for production.
type LogOptions struct {
	// Levels are the levels of kinds of events, in place of those that LogEvents lists. The map is
	// copied.
	Levels map[EventKind]slog.Level
	// DenialsEvery thins out the refusals: of each model and code it writes the first, and then one
	// of so many, in which left_out says how many were not written in between. Zero means 100, 1
	// writes all of them, and less than zero writes none. When 1,024 models and codes have been
	// refused, further models count together.
	DenialsEvery int
}

const denialsEvery = 100

// LogEvents returns a handler for Config.Events that writes each event to a logger, with its
// context, so that a handler of package slog may add the trace of the call. A nil logger is
// slog.Default(), as it is at each event.
//
// The levels are: error for EventStoreDown; warning for EventRefused, EventExpired,
// EventCooldownBegan, EventProviderRefused and EventUnknownModel; info for EventCooldownEnded,
// EventQuotaChanged and EventStoreUp; debug for all others. An EventSaved with an error has the
// level of EventStoreDown. An event whose level the logger does not write costs no allocation.
//
// The attributes are, where they are not zero: event (the kind), call (Event.ID), model, requested
// (if it is another name than model), provider, estimated and settled (groups of prompt_tokens and
// output_tokens), wait, held, until, quota (a group with the keys of files), by, status, problem,
// nearest, system, operation, took and error; of a decision code, reason, never and cause; cause
// also of a cooldown; retry_after of a decision or a provider's refusal; left_out of a sampled
// refusal. Durations are slog.Durations. These names are stable.
//
// No record contains a key, a prompt or a reply. A call that was refused may have an error of a
// context that the program made, of which only the type is written, unless it is one of this
// package or of package context.
//
// The handler is safe for concurrent use.
func LogEvents(logger *slog.Logger, options LogOptions) EventHandler {
	h := &logHandler{logger: logger, kinds: maps.Clone(logKinds)}
	for kind, level := range options.Levels {
		h.kinds[kind] = logKind{level, logKinds[kind].message}
	}
	if options.DenialsEvery >= 0 {
		h.denials = sample.New(cmp.Or(options.DenialsEvery, denialsEvery))
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
	EventEvicted:         {slog.LevelDebug, "ratelimit: a model was forgotten"},
	EventStoreDown:       {slog.LevelError, "ratelimit: the store cannot be used"},
	EventStoreUp:         {slog.LevelInfo, "ratelimit: the store can be used again"},
	EventSaved:           {slog.LevelDebug, "ratelimit: the state was saved"},
}

// logHandler writes events to a logger. It never changes.
type logHandler struct {
	logger  *slog.Logger // nil for slog.Default
	kinds   map[EventKind]logKind
	denials *sample.Sampler // nil writes none
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
	leftOut := 0
	if e.Kind == EventRefused {
		var take bool
		if take, leftOut = h.takes(e); !take {
			return
		}
	}
	a := make(attrs, 0, 16)
	e.attributes(&a)
	a.number("left_out", leftOut)
	logger.LogAttrs(ctx, kind.level, kind.message, a...)
}

// takes reports whether a refusal is written, and how many of its kind were not since the last.
func (h *logHandler) takes(e *Event) (take bool, leftOut int) {
	if h.denials == nil {
		return false, 0
	}
	var code string
	if e.Decision != nil {
		code = string(e.Decision.Code)
	}
	return h.denials.Take(e.Model, code)
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
