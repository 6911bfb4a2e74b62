package answers

import (
	"fmt"
	"testing"
)

func TestNews(t *testing.T) {
	var b Book
	var n News
	for i := 1; i <= 40; i++ {
		n.Note("m", b.Observe("m", count(1, 1), count(1, i), most), most)
		due, all := n.Due(&b), n.All(&b)
		if want := i%16 == 1; (len(due) == 1) != want || len(all) != 1 || all[0].Model != "m" {
			t.Fatalf("after %d answers %v is due of %v", i, due, all)
		}
		n.Told(due)
	}
	if n.Told(n.All(&b)); len(n.All(&b)) != 0 {
		t.Errorf("after all was told there is %v", n.All(&b))
	}
	n.Note("forgotten", 1, most)
	if due := n.Due(&b); len(due) != 0 {
		t.Errorf("%v is told of a model that is not known", due)
	}
	for i := range 10 * most {
		if n.Note(fmt.Sprint(i), 1, most); len(n.models) > most {
			t.Fatalf("it has %d models", len(n.models))
		}
	}
}
