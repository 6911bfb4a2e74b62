// Events: which fields each kind sets.

package ratelimit_test

import (
	"reflect"
	"slices"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// eventFields are the fields that a kind may set, beside Kind, Model, Requested and Provider. Those
// that it always sets have an exclamation mark.
type eventFields []string

func (f eventFields) has(name string) bool {
	return slices.Contains(f, name) || slices.Contains(f, name+"!")
}

// fieldsOf is what event.go says of each kind.
var fieldsOf = map[ratelimit.EventKind]eventFields{
	ratelimit.EventQueued:   {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Decision!", "Operation"},
	ratelimit.EventAdmitted: {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Cost", "Wait", "Decision"},
	ratelimit.EventPassed:   {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Wait", "Decision!", "Operation"},
	ratelimit.EventRefused:  {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Wait", "Decision", "Err", "Operation"},
	ratelimit.EventSettled:  {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventReleased: {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventExpired:  {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventRecorded: {"ID!", "Model!", "Requested!", "Provider", "Settled", "Cost"},

	ratelimit.EventCooldownBegan:   {"Model!", "Requested!", "Pool", "Provider", "Cause!", "Until!"},
	ratelimit.EventCooldownEnded:   {"Model!", "Requested!", "Pool", "Provider", "Cause!"},
	ratelimit.EventQuotaChanged:    {"Model!", "Requested!", "Pool", "Provider", "Quota", "By!"},
	ratelimit.EventProviderRefused: {"Model!", "Requested!", "Provider", "Status", "Problem", "RetryAfter"},
	ratelimit.EventUnknownModel:    {"Model!", "Requested!", "Provider", "Nearest"},
	ratelimit.EventUncounted:       {"Model", "Requested", "Provider", "Path!", "Err!"},
	ratelimit.EventEvicted:         {"Model!", "Requested!", "Provider"},
	ratelimit.EventStoreDown:       {"System!", "Err!"},
	ratelimit.EventStoreUp:         {"System!"},
	ratelimit.EventSaved:           {"System!", "Operation!", "Took", "Err"},
}

// misfit says which field of an event is set that its kind does not name, or is zero where it must
// not be; empty for none.
func (is *told) misfit() string {
	set, known := fieldsOf[is.Kind]
	if !known {
		return "an unknown kind"
	}
	e := reflect.ValueOf(is.Event)
	for i := range e.NumField() {
		name := e.Type().Field(i).Name
		switch zero := e.Field(i).IsZero(); {
		case name == "Kind":
		case is.Pool != "" && is.Decision == nil && (name == "Model" || name == "Requested"):
			if !zero {
				return "an event of a pool has " + name
			}
		case zero && slices.Contains(set, name+"!"):
			return name + " is zero"
		case !zero && !set.has(name):
			return name + " is set"
		}
	}
	switch d := is.decision; {
	case is.Wait < 0 || is.Held < 0 || is.Took < 0 || is.RetryAfter < 0:
		return "a negative duration"
	case is.Settled.PromptTokens < 0 || is.Settled.OutputTokens < 0:
		return "negative tokens stay charged"
	case is.Decision != nil && (d.Allowed || d.Code == "" || d.Code == ratelimit.DecisionAllowed || d.Reason == ""):
		return "the decision allows it"
	case is.Kind == ratelimit.EventExpired && is.Settled != is.Estimated:
		return "it does not stay charged at its estimate"
	case is.Kind == ratelimit.EventReleased && is.Settled != (ratelimit.Usage{}) && is.Settled != is.Estimated:
		return "neither all of it is given back nor nothing"
	case is.ctx == nil:
		return "no context"
	}
	return ""
}
