package measure

// Rounds runs every one of the cells once, then every one a second time, and so
// on. What a machine does meanwhile, a noisy neighbour or a warmer cache, so
// falls on all cells and not on the last. Each round begins with another cell,
// so that none always follows the same one.
func Rounds(rounds, cells int, run func(round, cell int) error) error {
	for round := range rounds {
		for i := range cells {
			if err := run(round, (round+i)%cells); err != nil {
				return err
			}
		}
	}
	return nil
}
