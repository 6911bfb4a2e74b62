package engine

// ForgetTold has the rates of all accounts be searched for again, whatever their providers say.
func (e *Engine) ForgetTold() {
	for _, a := range e.accounts {
		a.Found.ForgetTold()
	}
}
