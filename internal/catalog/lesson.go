package catalog

import (
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Lesson returns the quota of a name as corrected by a report of its provider, and whether that
// differs from the present one. A correction of a shared quota, or of none, becomes a quota of the
// name's own: there is room for one as long as fewer than most names of models have quotas.
func (c *Catalog) Lesson(name string, report *state.ReportedLimits, most int) (next state.Quota, differs bool) {
	cover, q, _ := c.Cover(name)
	if !IsName(name) || !report.Differ(&q) { // a provider has no model without a name
		return q, false
	}
	bounds := c.said.Bounds(cover, c.quotas[cover])
	next = report.Correct(&q, &bounds)
	if _, bad := q.Invalid(); bad || next == q || cover != name && len(c.quotas)-c.pooled >= most {
		return q, false
	}
	return next, true
}

// Learn is a quota that Lesson returned for a name.
func (c *Catalog) Learn(name string, next state.Quota) []Change {
	var cover string
	var is, bounds state.Quota
	if _, own := c.quotas[name]; !own {
		name = strings.Clone(name) // which may be a part of a whole request
		var known bool
		if cover, is, known = c.Cover(name); known {
			bounds = c.said.Bounds(cover, is)
		} else {
			cover = ""
		}
	}
	return c.say(nil, name, func(said *sayings) { said.Learn(name, next, cover, is, bounds) })
}

// ForgetLearned forgets what was learned of a name, or of all names where it is "".
func (c *Catalog) ForgetLearned(name string) (changes []Change) {
	names := []string{name}
	if name == "" {
		names = c.said.Learned()
	}
	for _, name := range names {
		changes = c.say(changes, name, func(said *sayings) { said.Forget(name) })
	}
	return changes
}
