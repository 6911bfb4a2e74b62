package instruments_test

import (
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// An instrument of a pool has the name of that of a model, but for one word, and is of no model.
func TestPoolNames(t *testing.T) {
	models := make(map[string]bool)
	for _, i := range instruments.List {
		models[i.Name] = i.PerModel
	}
	for _, i := range instruments.List {
		name, of := strings.CutPrefix(i.Name, "ratelimit.pool.")
		if of != slices.Contains(i.Attributes, instruments.Pool) || of && i.PerModel {
			t.Errorf("%s has the attributes %v", i.Name, i.Attributes)
		}
		if of && i.Kind != instruments.Counter && !models["ratelimit."+name] {
			t.Errorf("models have no ratelimit.%s", name)
		}
	}
}

// The names in Prometheus are those in OpenTelemetry, with the unit and the kind at the end as
// Prometheus has them.
func TestNames(t *testing.T) {
	units := map[string]string{"s": "_seconds", "USD": "_dollars"}
	for _, i := range instruments.List {
		want := strings.ReplaceAll(i.Name, ".", "_") + units[i.Unit]
		switch {
		case i.Kind == instruments.Counter:
			want += "_total"
		case strings.HasSuffix(i.Name, ".utilization"):
			want += "_ratio"
		}
		if i.Prometheus != want {
			t.Errorf("%s is %s in Prometheus, want %s", i.Name, i.Prometheus, want)
		}
	}
}

func TestList(t *testing.T) {
	var names, labels []string
	for id, i := range instruments.List {
		if i.Name == "" || i.Unit == "" || !strings.HasSuffix(i.Description, ".") {
			t.Errorf("instrument %d is incomplete: %+v", id, i)
		}
		if histogram := i.Kind == instruments.Histogram; histogram != (i.Boundaries != nil) || histogram && i.Integer {
			t.Errorf("%s: the boundaries do not fit the kind", i.Name)
		}
		if !slices.IsSorted(i.Boundaries) || len(slices.Compact(slices.Clone(i.Boundaries))) != len(i.Boundaries) {
			t.Errorf("%s: the boundaries do not rise", i.Name)
		}
		names = append(names, i.Name, i.Prometheus)
		for _, a := range i.Attributes {
			if a == instruments.Model || a == instruments.Provider {
				t.Errorf("%s names %s twice", i.Name, a.Name)
			}
			labels = append(labels, a.Name+" "+a.Label)
		}
	}
	slices.Sort(names)
	if all := len(names); len(slices.Compact(names)) != all {
		t.Error("two instruments have one name")
	}
	slices.Sort(labels)
	if labels = slices.Compact(labels); len(labels) != 14 {
		t.Errorf("the attributes are %q", labels)
	}
}
