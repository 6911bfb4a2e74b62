package batch

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// InputError is a mistake in IN or OUT, for which nothing was sent.
type InputError struct{ error }

// Unwrap returns the mistake.
func (e *InputError) Unwrap() error { return e.error }

func inputErrorf(format string, arguments ...any) error {
	return &InputError{fmt.Errorf(format, arguments...)}
}

// survey is what the first reading of OUT and IN has found.
type survey struct {
	lines    int  // of IN, blank ones left out
	finished int  // of them OUT has
	bad      int  // of them cannot be sent
	isDone   bits // the numbers of those that OUT has
	first    line // the first one that can be sent
	killed   bool // the last run has not come to its end
	state    markState
}

// surveyMemory bounds the memory while ids are compared, about 110 MB of ten million lines: the
// garbage of tables that have grown is collected sooner.
const surveyMemory = 150 << 20

// manyLines is a number of lines whose ids take some megabytes.
const manyLines = 500_000

// takeSurvey reads OUT and IN, and refuses what would mix two batches.
func takeSurvey(in *Input, out *Output, bare string) (*survey, error) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(surveyMemory))
	ids := newIDSet()
	done, err := out.load(ids)
	if err != nil {
		return nil, inputErrorf("%s: %w", out.path, err)
	}
	s := &survey{}
	if out.mark != nil {
		s.state, s.killed = out.mark.state, out.mark.state.Running
	}
	print := newFingerprint(s.state.Bytes)
	lines, err := in.lines(print)
	if err != nil {
		return nil, &InputError{err}
	}
	for {
		text, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return nil, inputErrorf("line %d: %w", lines.number+1, err)
		}
		if err = s.add(ids, text, err, lines.number, bare); err != nil {
			return nil, err
		}
	}
	switch {
	case s.state.Bytes > 0 && print.same != s.state.SHA256:
		return nil, inputErrorf("it is not the input of which %s has results, or was changed since: --fresh moves that away and begins anew", out.path)
	case done > s.finished:
		return nil, inputErrorf("%s has %d results of lines that are not there", out.path, done-s.finished)
	}
	s.state.Bytes, s.state.SHA256 = print.bytes, print.sum()
	if s.lines > manyLines {
		ids = nil
		debug.FreeOSMemory() // else the run may take as much again before the ids are collected
	}
	return s, nil
}

// add adds a line of IN, which may have been found too long.
func (s *survey) add(ids *idSet, text []byte, tooLong error, number int, bare string) error {
	if len(text) == 0 {
		return nil
	}
	s.lines++
	l, err := parseLine(text, number, bare)
	if err != nil || tooLong != nil {
		s.bad++
		return nil
	}
	if s.first.number == 0 {
		s.first = l
		s.first.raw, s.first.body = nil, nil
	}
	done, again := ids.see(l.id)
	if again {
		return inputErrorf("line %d: the custom_id %q has been there before", number, l.id)
	}
	if done {
		s.finished++
		s.isDone.add(number)
	}
	return nil
}
