package housetest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

const (
	maxCommentColumns = 100
	tabColumns        = 4
)

var directive = regexp.MustCompile("^//[a-z]+:[a-z]")

// Comments are prose, and prose is read in columns. Code may be wider.
func TestCommentWidth(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("has one goroutine, which the race detector only slows down")
	}
	sources, err := readSources(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if wide := wideComments(sources); len(wide) > 0 {
		t.Errorf("%d lines of comments pass column %d:\n\t%s",
			len(wide), maxCommentColumns, strings.Join(wide, "\n\t"))
	}
}

// wideComments returns the lines of comments that are too wide, with their places. Directives and
// single words, such as addresses, cannot be broken, and a comment that stands behind code is as
// wide as the code lets it be.
func wideComments(sources []source) (wide []string) {
	for _, s := range sources {
		for _, group := range s.file.Comments {
			for _, comment := range group.List {
				first := s.line(comment.Pos())
				for i := first; i <= s.line(comment.End()); i++ {
					line := s.lines[i-1]
					text := strings.TrimSpace(line)
					behind := i == first && !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "/*")
					word := !strings.Contains(strings.TrimPrefix(text, "// "), " ")
					if !behind && !word && !directive.MatchString(text) && columns(line) > maxCommentColumns {
						wide = append(wide, fmt.Sprintf("%s:%d has %d columns", s.name, i, columns(line)))
					}
				}
			}
		}
	}
	return wide
}

// columns returns how wide a line is.
func columns(line string) (n int) {
	for part := range strings.SplitAfterSeq(line, "\t") {
		if before, tab := strings.CutSuffix(part, "\t"); tab {
			n += utf8.RuneCountInString(before)
			n += tabColumns - n%tabColumns
		} else {
			n += utf8.RuneCountInString(part)
		}
	}
	return n
}
