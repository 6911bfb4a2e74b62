package notice

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// UnknownAgain is how long a model is not reported again.
const UnknownAgain = 24 * time.Hour

// UnknownModels are the models without a quota that were met lately, so that each is reported once
// a day however often it is called: see Config.Unknown. The zero value has met none. It is safe for
// concurrent use.
type UnknownModels struct {
	mu   sync.Mutex
	met  map[string]metModel
	full time.Time // with no room for another one: until when there will be none
}

// metModel is what is known of one model.
type metModel struct {
	at      time.Time // when it was reported
	nearest string    // the known name that is nearest to it,
	version int       // by the quotas of this version
}

// Meet notes a call of a model at a time, under the quotas of a version. It returns the nearest
// name, which it asks nearest for where it does not know it, and whether the model is to be
// reported. Of more than most models a day it keeps and reports none, and is not ok.
func (m *UnknownModels) Meet(model string, now time.Time, version, most int, nearest func() string) (name string, report, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, known := m.met[model]
	report = !known || now.Sub(is.at) >= UnknownAgain
	if !report && is.version == version {
		return is.nearest, false, true
	}
	if !known && !m.hasRoom(now, most) {
		return "", false, false
	}
	if report {
		is.at = now
	}
	is.nearest, is.version = nearest(), version
	if m.met == nil {
		m.met = make(map[string]metModel)
	}
	m.met[strings.Clone(model)] = is // it may be a part of a longer string
	return is.nearest, report, true
}

// hasRoom reports whether one more model may be kept, and forgets those of the day before if need
// be. It looks at them only when one of them can be that old.
func (m *UnknownModels) hasRoom(now time.Time, most int) bool {
	if len(m.met) < most {
		return true
	}
	if now.Before(m.full) {
		return false
	}
	m.full = now.Add(UnknownAgain)
	maps.DeleteFunc(m.met, func(_ string, is metModel) bool {
		again := is.at.Add(UnknownAgain)
		if again.After(now) && again.Before(m.full) {
			m.full = again
		}
		return !again.After(now)
	})
	return len(m.met) < most
}
