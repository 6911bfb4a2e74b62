package answers

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// tellEvery is how many answers of a model others are told of at a time.
const tellEvery = 16

// News is the models of whose answers other processes do not know all. The zero value is none. It
// is not safe for concurrent use.
type News struct {
	models map[string]bool // whether it is their turn to be told
}

// Learnt is what others are told of a model.
type Learnt struct {
	Model string
	Text  string // as state.AnswersText
}

// Note notes an answer of a model, of which so many were seen. most bounds the models that others
// do not know of: with more, none of them is told until its next answer.
func (n *News) Note(model string, seen, most int) {
	if n.models == nil || len(n.models) >= most {
		n.models = make(map[string]bool)
	}
	n.models[model] = n.models[model] || seen%tellEvery == 1
}

// Due returns what was learned of the models whose turn it is: after the first answer, and after
// every 16th.
func (n *News) Due(b *Book) []Learnt {
	return n.of(b, func(_ string, due bool) bool { return due })
}

// All returns what was learned of all models of which others do not know all.
func (n *News) All(b *Book) []Learnt {
	return n.of(b, func(string, bool) bool { return true })
}

func (n *News) of(b *Book, wanted func(model string, due bool) bool) (learnt []Learnt) {
	var models []string
	for model, due := range n.models {
		if wanted(model, due) {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	for _, model := range models {
		if a, known := b.Of(model); known {
			learnt = append(learnt, Learnt{model, state.AnswersText(a)})
		} else {
			delete(n.models, model)
		}
	}
	return learnt
}

// Told notes that others were told. They hear of what came meanwhile the next time.
func (n *News) Told(learnt []Learnt) {
	for _, l := range learnt {
		delete(n.models, l.Model)
	}
}
