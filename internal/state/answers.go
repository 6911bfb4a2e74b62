package state

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Answers is what was learned of the answers of a model, as it is stored. The zero value is
// nothing. A permille is a thousandth; all numbers are integers of at most 31 bits.
type Answers struct {
	Count      int `json:"count"`      // answers seen; it stops at the largest
	Prompts    int `json:"prompts"`    // those of them whose prompt was counted
	Correction int `json:"correction"` // used per estimated prompt tokens in permille; 0 before Prompts
	Deviation  int `json:"deviation"`  // the mean of what single prompts were off that, in permille
	Peak       int `json:"peak"`       // the largest output of the present generation, in tokens
	LastPeak   int `json:"last_peak"`  // that of the generation before
	Generation int `json:"generation"` // answers in the present generation
	Errors     Row `json:"errors"`     // the last errors of corrected prompt estimates, in permille
}

// Row is numbers in one line, the oldest first.
type Row []int

// The bounds of the fields of Answers.
const (
	LeastCorrection, MostCorrection = 250, 4000
	MostErrors                      = 64      // in Answers.Errors
	MostError                       = 1 << 20 // of one
	MostOutput                      = 1 << 20 // tokens; larger than any answer
	MostAnswers                     = 1<<31 - 1
	AnswersPerGeneration            = 32
)

// AnswersFields are the keys of the numbers of Answers in a file, in their order. Errors follow
// under ErrorsKey.
var AnswersFields = []struct {
	Key  string
	Of   func(*Answers) *int
	Most int
}{
	{"count", func(a *Answers) *int { return &a.Count }, MostAnswers},
	{"prompts", func(a *Answers) *int { return &a.Prompts }, MostAnswers},
	{"correction", func(a *Answers) *int { return &a.Correction }, MostCorrection},
	{"deviation", func(a *Answers) *int { return &a.Deviation }, MostCorrection},
	{"peak", func(a *Answers) *int { return &a.Peak }, MostOutput},
	{"last_peak", func(a *Answers) *int { return &a.LastPeak }, MostOutput},
	{"generation", func(a *Answers) *int { return &a.Generation }, AnswersPerGeneration - 1},
}

// ErrorsKey is the key of Answers.Errors in a file.
const ErrorsKey = "errors"

// Check returns an error that names the field and its value if the limiter cannot have learned it.
func (a *Answers) Check() error {
	for _, f := range AnswersFields {
		if n := *f.Of(a); n < 0 || n > f.Most {
			return fmt.Errorf("%s is %d, want 0 to %d", f.Key, n, f.Most)
		}
	}
	if a.Prompts > 0 && a.Correction < LeastCorrection {
		return fmt.Errorf("correction is %d, want %d to %d", a.Correction, LeastCorrection, MostCorrection)
	}
	return a.Errors.check()
}

func (r Row) check() error {
	if len(r) > MostErrors {
		return fmt.Errorf("%s are %d, want at most %d", ErrorsKey, len(r), MostErrors)
	}
	for _, n := range r {
		if n < 0 || n > MostError {
			return fmt.Errorf("%s has %d, want 0 to %d", ErrorsKey, n, MostError)
		}
	}
	return nil
}

// String returns the numbers with a space between each and the next.
func (r Row) String() string {
	var b []byte
	for i, n := range r {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

// ParseRow is the reverse of Row.String.
func ParseRow(text string) (r Row, err error) {
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(field)
		if err != nil || len(r) == MostErrors {
			return nil, fmt.Errorf("%q is not at most %d numbers", text[:min(len(text), 100)], MostErrors)
		}
		r = append(r, n)
	}
	return r, r.check()
}

// AnswersText returns answers as databases store them.
func AnswersText(a Answers) string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // of integers
	}
	return string(text)
}

// ParseAnswers is the reverse of AnswersText. The error names what is wrong with the text.
func ParseAnswers(text string) (a Answers, err error) {
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return Answers{}, err
	}
	if err := a.Check(); err != nil {
		return Answers{}, err
	}
	return a, nil
}
