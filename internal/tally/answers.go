package tally

import (
	"container/list"
	"maps"
	"slices"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// inertia is how many prompts the correction is a mean of: the first ones count alike, and from
// then on each takes the place of an eighth of what was learned.
const inertia = 8

// Lesson is what can be said of the next answer of a model. The zero value says that nothing was
// learned.
type Lesson struct {
	Answers    int // seen
	Output     int // expected, in tokens
	Correction int // of the prompt estimate, in permille, leaning upwards; 0 for none
	ErrorP50   int // half of the corrected prompt estimates were wrong by no more, in permille
	ErrorP95   int // 19 of 20
}

// Answers are what was learned of all models. They forget the model that answered least recently
// when there are too many. The zero value is ready. They guard themselves.
type Answers struct {
	mu     sync.Mutex
	models map[string]*list.Element // of *model
	recent list.List                // the last that answered in front
}

type model struct {
	name   string
	is     state.Answers
	sorted []int // is.Errors in order
}

// Observe learns from an answer: of the estimate of the prompt before it was corrected, and of the
// tokens that were used, both zero if not known. most is the number of models that the Answers may
// know. It returns how many answers of the model were seen.
func (a *Answers) Observe(name string, estimated, used state.Count, most int) (seen int) {
	if used.Input <= 0 && used.Output <= 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.get(name, most)
	m.is.Count = min(m.is.Count+1, state.MostAnswers)
	m.learnPrompt(estimated.Input, used.Input)
	m.learnOutput(max(used.Output, 0))
	return m.is.Count
}

// get returns a model, which it moves to the front; a new one if it is not known.
func (a *Answers) get(name string, most int) *model {
	if e := a.models[name]; e != nil {
		a.recent.MoveToFront(e)
		return e.Value.(*model)
	}
	if a.models == nil {
		a.models = make(map[string]*list.Element)
	}
	for len(a.models) >= max(most, 1) {
		last := a.recent.Back()
		a.recent.Remove(last)
		delete(a.models, last.Value.(*model).name)
	}
	m := &model{name: strings.Clone(name)}
	a.models[m.name] = a.recent.PushFront(m)
	return m
}

// learnPrompt learns from the tokens of a prompt. Counts beyond those of any prompt are errors.
func (m *model) learnPrompt(estimated, used int) {
	const most = 1 << 30
	if estimated <= 0 || used <= 0 || estimated > most || used > most {
		return
	}
	a := &m.is
	wrong := int64(Correct(estimated, correction(a))) - int64(used)
	m.learnError(int(min(max(wrong, -wrong)*1000/int64(used), state.MostError)))
	ratio := int(min(max(int64(used)*1000/int64(estimated), state.LeastCorrection), state.MostCorrection))
	a.Prompts = min(a.Prompts+1, state.MostAnswers)
	weight := min(a.Prompts, inertia)
	off := ratio - a.Correction
	a.Correction += off / weight
	if a.Prompts > 1 {
		a.Deviation += (max(off, -off) - a.Deviation) / weight
	}
}

// correction is the mean and the mean deviation from it. With the mean alone half of the calls
// would be estimated too low, and a minute full of such calls would be over its limit.
func correction(a *state.Answers) int {
	return min(a.Correction+a.Deviation, state.MostCorrection)
}

func (m *model) learnError(permille int) {
	errors := m.is.Errors
	if len(errors) == state.MostErrors {
		i, _ := slices.BinarySearch(m.sorted, errors[0])
		m.sorted = slices.Delete(m.sorted, i, i+1)
		errors = slices.Delete(errors, 0, 1)
	}
	m.is.Errors = append(errors, permille)
	i, _ := slices.BinarySearch(m.sorted, permille)
	m.sorted = slices.Insert(m.sorted, i, permille)
}

// learnOutput learns from the tokens of an answer. A larger count than that of any answer is an
// error that would make all later calls wait.
func (m *model) learnOutput(output int) {
	a := &m.is
	if output > state.MostOutput {
		return
	}
	a.Peak = max(a.Peak, output)
	if a.Generation++; a.Generation == state.AnswersPerGeneration {
		a.LastPeak, a.Peak, a.Generation = a.Peak, 0, 0
	}
}

// Estimate returns what was learned of a model.
func (a *Answers) Estimate(name string) (e Lesson) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.models[name]
	if known == nil {
		return e
	}
	m := known.Value.(*model)
	peak := max(m.is.Peak, m.is.LastPeak)
	e = Lesson{Answers: m.is.Count, Output: peak + peak/4, Correction: correction(&m.is)}
	if n := len(m.sorted); n > 0 {
		e.ErrorP50, e.ErrorP95 = m.sorted[(n-1)*50/100], m.sorted[(n-1)*95/100]
	}
	return e
}

// Correct returns an estimate of a prompt after a correction in permille, rounded up. A correction
// of 0 changes nothing.
func Correct(estimated, permille int) int {
	if permille == 0 || estimated <= 0 {
		return estimated
	}
	const most = 1<<31 - 1
	if estimated > most {
		return estimated
	}
	return int(min((int64(estimated)*int64(permille)+999)/1000, most))
}

// All returns what was learned of each model. The caller may change it.
func (a *Answers) All() map[string]state.Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[string]state.Answers, len(a.models))
	for name, e := range a.models {
		all[name] = e.Value.(*model).stored()
	}
	return all
}

// Of returns what was learned of a model.
func (a *Answers) Of(name string) (is state.Answers, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.models[name]
	if e == nil {
		return is, false
	}
	return e.Value.(*model).stored(), true
}

func (m *model) stored() state.Answers {
	a := m.is
	a.Errors = slices.Clone(a.Errors)
	return a
}

// Merge adds what a file or another process has learned, in the order of the names: the larger
// outputs count, and of the corrections that of more prompts; of equally many, that of the Answers.
func (a *Answers) Merge(others map[string]state.Answers, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(others)) {
		a.get(name, most).merge(others[name])
	}
}

func (m *model) merge(other state.Answers) {
	a := &m.is
	if other.Prompts > a.Prompts {
		a.Prompts, a.Correction, a.Deviation, a.Errors = other.Prompts, other.Correction, other.Deviation, slices.Clone(other.Errors)
		m.sorted = slices.Sorted(slices.Values(a.Errors))
	}
	if other.Count > a.Count {
		a.Count, a.Generation = other.Count, other.Generation
	}
	a.Peak, a.LastPeak = max(a.Peak, other.Peak), max(a.LastPeak, other.LastPeak)
}
