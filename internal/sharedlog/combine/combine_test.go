package combine

import (
	"slices"
	"testing"
)

// names are those of the manners, for tables.
var names = map[string]Manner{"apart": Apart, "reserving": Reserving, "beside": Beside, "appended": Appended, "appended apart": AppendedApart}

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waiting []string
		want    int
	}{
		{"none", nil, 0},
		{"one", []string{"apart"}, 1},
		{"what may be beside others", []string{"beside", "appended", "beside"}, 3},
		{"up to one that may not", []string{"beside", "appended", "apart", "beside"}, 2},
		{"one that may not is alone", []string{"apart", "beside"}, 1},
		{"one that reserves several", []string{"reserving", "beside"}, 1},
		{"one that appends alone", []string{"appended apart", "appended"}, 1},
		{"not too many", slices.Repeat([]string{"beside"}, most+1), most},
	} {
		var q Queue[int]
		var jobs []*Job[int]
		for _, name := range tt.waiting {
			jobs = append(jobs, q.Add(names[name], func(int) {}))
		}
		got := q.Take()
		if !slices.Equal(got, jobs[:tt.want]) {
			t.Errorf("%s: %d were taken, want %d", tt.name, len(got), tt.want)
		}
		for i, j := range jobs {
			if q.Withdraw(j) != (i >= tt.want) {
				t.Errorf("%s: whether job %d can be withdrawn", tt.name, i)
			}
		}
	}
}

func TestFinish(t *testing.T) {
	var q Queue[int]
	var jobs []*Job[int]
	for _, m := range []Manner{Appended, Beside, Appended, Beside} {
		jobs = append(jobs, q.Add(m, func(int) {}))
	}
	q.Take()
	q.Keep(3)
	if !q.Withdraw(jobs[3]) {
		t.Error("what was given back cannot be withdrawn")
	}
	if others := q.Leave(jobs[:3]); !slices.Equal(others, []*Job[int]{jobs[0], jobs[2]}) {
		t.Errorf("%d are left", len(others))
	} else {
		q.Finish(others)
	}
	for i, j := range jobs {
		if j.IsDone() != (i == 0 || i == 2) {
			t.Errorf("whether job %d is done", i)
		}
	}
	if got := q.Take(); !slices.Equal(got, jobs[1:2]) {
		t.Errorf("%d wait", len(got))
	}
	if q.Withdraw(jobs[0]) {
		t.Error("what is done can be withdrawn")
	}
}

func TestDecides(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waiting []string
		want    bool
	}{
		{"none", nil, false},
		{"what only appends", []string{"appended", "appended"}, false},
		{"one that decides beside them", []string{"appended", "beside"}, true},
		{"one that decides, but later", []string{"appended", "apart"}, false},
		{"one apart", []string{"apart", "appended"}, true},
	} {
		var q Queue[int]
		for _, name := range tt.waiting {
			q.Add(names[name], func(int) {})
		}
		if got := q.Decides(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
