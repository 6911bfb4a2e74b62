package catalog

import "testing"

func TestMembers(t *testing.T) {
	for _, tt := range []struct {
		models     []string
		model      string
		has, names bool
	}{
		{nil, "m", false, false},
		{[]string{"m"}, "m", true, true},
		{[]string{"m"}, "mm", false, false},
		{[]string{"a", "m*"}, "mm", true, true},
		{[]string{"*"}, "m", true, false},
		{[]string{"*"}, "", true, false},
		{[]string{"*", "m"}, "m", true, true},
		{[]string{"**"}, "m", true, true},
		{[]string{""}, "", true, true},
		{[]string{""}, "m", false, false},
		{[]string{"a*b*c"}, "aXbYc", true, true},
		{[]string{"m*"}, "M", false, false},
	} {
		m := newMembers(tt.models)
		if got := m.Has(tt.model); got != tt.has {
			t.Errorf("%q has %q: %v", tt.models, tt.model, got)
		}
		if got := m.Names(tt.model); got != tt.names {
			t.Errorf("%q names %q: %v", tt.models, tt.model, got)
		}
	}
	var none *members
	if none.Has("m") || none.Names("m") || none.Given() != nil {
		t.Error("nil members have a model")
	}
}

func TestMembersAreACopy(t *testing.T) {
	models := []string{"a", "b*"}
	m := newMembers(models)
	models[0] = "x"
	m.Given()[1] = "y"
	if !m.Has("a") || !m.Has("bb") || m.Has("x") {
		t.Errorf("they have become %q", m.Given())
	}
}
